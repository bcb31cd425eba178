import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs features of the official Java client one by one, and prints one line of JSON for each.
 *
 * <p>A feature is a check with a topic and a group of its own. Some are run at the same time, because most of their
 * time is waiting. The same sources are compiled for each version of the client: what only some of them have is called
 * by reflection, and is "absent" in the others.
 *
 * <pre>java -cp … Main NAMESRV PREFIX [FEATURE…]</pre>
 */
public final class Main {
    private static final int AT_A_TIME = 4;
    private static final int FEATURE_S_MAX = 60;

    interface Check {
        void run(Lab lab) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Check> features = new LinkedHashMap<>();
        Sending.enrol(features);
        Transactions.enrol(features);
        Consuming.enrol(features);
        Pulling.enrol(features);
        Administration.enrol(features);
        if (arguments.length > 2) {
            features.keySet().retainAll(java.util.Arrays.asList(arguments).subList(2, arguments.length));
        }
        ExecutorService workers = Executors.newFixedThreadPool(AT_A_TIME);
        CountDownLatch open = new CountDownLatch(features.size());
        features.forEach((name, check) -> workers.execute(() -> {
            try {
                report(name, check, new Lab(arguments[0], arguments[1] + "-" + name));
            } finally {
                open.countDown();
            }
        }));
        open.await();
        System.exit(0); // clients that could not be closed have threads that never end
    }

    private static void report(String name, Check check, Lab lab) {
        ExecutorService alone = Executors.newSingleThreadExecutor();
        Callable<Void> body = () -> {
            check.run(lab);
            return null;
        };
        Future<Void> running = alone.submit(body);
        String outcome = "works";
        String why = "";
        try {
            running.get(FEATURE_S_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            outcome = "fails";
            why = "not finished in " + FEATURE_S_MAX + " s";
        } catch (Exception failed) {
            Throwable cause = Lab.rootOf(failed);
            boolean absent = cause instanceof NoSuchMethodException || cause instanceof ClassNotFoundException;
            outcome = absent ? "absent" : "fails";
            why = absent ? "" : cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        alone.shutdownNow();
        System.out.println("{\"feature\":" + quoted(name) + ",\"outcome\":" + quoted(outcome) + ",\"why\":" + quoted(why) + "}");
        lab.close();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else {
                out.append(c < ' ' ? ' ' : c);
            }
        }
        return out.append('"').toString();
    }
}
