import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The official client, controlled by lines of JSON: it reads commands from standard input and writes their results.
 *
 * <p>One JSON object a line, both ways. {@code {"id":7,"do":"send",…}} is answered by {@code {"id":7,"result":…}} or
 * {@code {"id":7,"error":"…"}}; each consumed message is written as {@code {"event":"consumed",…}}. One process runs all
 * producers and consumers of a test run, because a JVM needs a second to start. It checks nothing; the tests do.
 * A command that starts a client may give it another NameServer, as {@code "namesrv"}. The same sources are compiled for
 * 4.9 and for 5.x, so they name only classes that both have.
 */
public final class Actor {
    /** One command. */
    interface Deed {
        Object act(JSONObject asked) throws Exception;
    }

    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private Actor() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // the client's output must not get between our lines
        String namesrv = arguments[0];
        Map<String, Deed> deeds = new TreeMap<>();
        Producers producers = new Producers(namesrv);
        producers.enrol(deeds);
        new Consumers(namesrv).enrol(deeds);
        new Requests(producers).enrol(deeds);
        new Pullers(namesrv).enrol(deeds);
        LiteStory.enrol(deeds, namesrv);
        ExecutorService hands = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            hands.execute(() -> answer(deeds, asked));
        }
        System.exit(0); // the test has closed our input
    }

    /** Writes one line; safe from any thread. */
    static synchronized void tell(JSONObject line) {
        OUT.println(line.toJSONString());
    }

    private static void answer(Map<String, Deed> deeds, JSONObject asked) {
        JSONObject line = new JSONObject(true).fluentPut("id", asked.get("id"));
        try {
            Deed deed = deeds.get(asked.getString("do"));
            if (deed == null) {
                throw new IllegalArgumentException("one of " + deeds.keySet() + ", not " + asked.getString("do"));
            }
            line.put("result", deed.act(asked));
        } catch (Throwable problem) {
            Throwable cause = problem.getCause(); // after retries the reason is the cause of the error
            line.put("error", cause == null ? problem.toString() : problem + "; cause: " + cause);
        }
        tell(line);
    }
}
