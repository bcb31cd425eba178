import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A NameServer and two brokers on free ports, for as long as a test needs them.
 *
 * <p>{@code rmqemu up} prints one line of JSON when it is ready: the NameServer's address, and the
 * control address for killing and starting nodes. The environment variable RMQEMU is the path of
 * the command if it is not in the PATH.
 */
final class MiniCluster implements AutoCloseable {
    private static final int STOP_S_MAX = 10;

    final String namesrv;
    private final String control;
    private final Process process;
    private final HttpClient http = HttpClient.newHttpClient();

    /** Starts the cluster with the brokers' stores in {@code store}, which survive a kill. */
    MiniCluster(Path store) throws IOException {
        List<String> command = new ArrayList<>(command());
        // --exit-with-parent: a suite that is killed leaves no cluster behind.
        command.addAll(List.of("up", "--exit-with-parent", "--port", "0", "--store", store.toString()));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader output = new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = output.readLine();
        if (line == null) {
            throw new IOException("rmqemu up did not start; the reason is on standard error");
        }
        JSONObject ready = JSON.parseObject(line);
        namesrv = ready.getString("namesrv");
        control = ready.getString("control");
    }

    /** As kill -9: the node does not unregister; its peers see their connections close. */
    void kill(String node) throws IOException, InterruptedException {
        ask(node, "kill");
    }

    /** Starts a killed node at the same address, with its store; returns when it is ready. */
    void start(String node) throws IOException, InterruptedException {
        ask(node, "start");
    }

    /** Resets the cluster for the next test: no messages, all nodes running; clients stay connected. */
    void reset() throws IOException, InterruptedException {
        post("/reset");
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(STOP_S_MAX, TimeUnit.SECONDS)) {
            process.destroyForcibly();
        }
    }

    private void ask(String node, String verb) throws IOException, InterruptedException {
        post("/nodes/" + node + "/" + verb);
    }

    private void post(String path) throws IOException, InterruptedException {
        URI uri = URI.create(control + path);
        HttpRequest request =
            HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.noBody()).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() / 100 != 2) {
            throw new IOException(path + ": " + answer.body());
        }
    }

    private static List<String> command() {
        String given = System.getenv("RMQEMU");
        return Arrays.asList((given == null || given.isEmpty() ? "rmqemu" : given).split(" "));
    }
}
