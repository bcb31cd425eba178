import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin commands in a row in one JVM: a line of arguments in, the length of the output and the output back. */
public class Admin {
    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        Thread main = Thread.currentThread();
        Thread hurry = new Thread(() -> hurry(main));
        hurry.setDaemon(true);
        hurry.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] output = outputOf(line.split("\t", -1));
            answers.println(output.length);
            answers.write(output);
            answers.flush();
        }
        System.exit(0); // clients leave threads behind
    }

    private static byte[] outputOf(String[] arguments) throws Exception {
        forgetCommands();
        ByteArrayOutputStream kept = new ByteArrayOutputStream();
        try (PrintStream both = new PrintStream(kept, true, "UTF-8")) {
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(arguments, null);
        }
        return kept.toByteArray();
    }

    /** A 5.x client that shuts down waits up to 3 s for a thread that polls its empty queue: cut that poll short. */
    private static void hurry(Thread main) {
        while (true) {
            boolean isWaiting = Arrays.stream(main.getStackTrace()).anyMatch(
                frame -> frame.getClassName().endsWith(".NettyRemotingClient") && frame.getMethodName().equals("shutdown"));
            for (Thread thread : isWaiting ? Thread.getAllStackTraces().keySet() : Set.<Thread>of()) {
                if (thread.getName().contains("NettyEventExecutor")) {
                    thread.interrupt();
                }
            }
            try {
                Thread.sleep(20);
            } catch (InterruptedException ignored) {
                return;
            }
        }
    }

    /** A process makes each command once; ours must not give a second run what a first one has closed. */
    private static void forgetCommands() throws Exception {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
