package rocketmq.emulator.junit;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.IntUnaryOperator;
import java.util.stream.Stream;

/**
 * A NameServer and two brokers that a test can kill, pause and reset.
 *
 * <p>{@link #start} runs {@code rmqemu up} as a process, {@link #mapped} uses a container, {@link
 * #at} a cluster that runs already. Nodes are named {@code namesrv}, {@code broker-a}, {@code
 * broker-b}. A verb returns when it is done: a started broker is in the route. Refused calls raise
 * {@link ControlCallFailed}.
 */
public final class RocketMqCluster implements AutoCloseable {
    /** The port of the control address in a container, and that of the NameServer. */
    public static final int CONTROL_PORT = 9875, NAMESRV_PORT = 9876;

    private static final int STOP_S_MAX = 10;

    private final String namesrv;
    private final ControlAddress control;
    private final AutoCloseable owner;

    private RocketMqCluster(String namesrv, ControlAddress control, AutoCloseable owner) {
        this.namesrv = namesrv;
        this.control = control;
        this.owner = owner;
    }

    /**
     * Starts a cluster on free ports, with more options of {@code rmqemu up}: {@code "--brokers",
     * "3"}. It ends with {@link #close}, or with this process, also if that is killed. The brokers
     * write to a temporary folder, so acknowledged messages survive a kill of a broker.
     */
    public static RocketMqCluster start(String... options) {
        try {
            Path store = Files.createTempDirectory("rocketmq");
            List<String> command = new ArrayList<>(command());
            command.addAll(List.of("up", "--exit-with-parent", "--port", "0", "--store", store.toString()));
            command.addAll(List.of(options));
            Process process = new ProcessBuilder(command).start();
            AtomicBoolean isEnding = new AtomicBoolean();
            passOn(lines(process.getErrorStream()), isEnding);
            String line = lines(process.getInputStream()).readLine();
            if (line == null) {
                delete(store);
                throw new IOException("rmqemu up did not start; the reason is on standard error");
            }
            JsonObject ready = JsonParser.parseString(line).getAsJsonObject();
            return new RocketMqCluster(ready.get("namesrv").getAsString(),
                new ControlAddress(ready.get("control").getAsString()), () -> {
                    isEnding.set(true);
                    end(process, store);
                });
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /** The cluster with that control address, {@code http://host:port}; closing it does nothing. */
    public static RocketMqCluster at(String control) {
        ControlAddress address = new ControlAddress(control);
        String namesrv = address.call("GET", "/", "").get("namesrv").getAsString();
        return new RocketMqCluster(namesrv, address, () -> { });
    }

    /**
     * A cluster in a container whose ports are mapped, {@code mapped("localhost",
     * container::getMappedPort, container)}: lets each broker register its mapped port. Closes
     * {@code container} when it is closed.
     */
    public static RocketMqCluster mapped(String host, IntUnaryOperator port, AutoCloseable container) {
        ControlAddress control =
            new ControlAddress("http://" + host + ":" + port.applyAsInt(CONTROL_PORT));
        RocketMqCluster cluster = new RocketMqCluster(
            host + ":" + port.applyAsInt(NAMESRV_PORT), control, container);
        for (JsonElement each : control.call("GET", "/nodes", "").getAsJsonArray("nodes")) {
            JsonObject node = each.getAsJsonObject();
            if (node.get("role").getAsString().equals("broker")) {
                String inside = node.get("address").getAsString();
                int number = Integer.parseInt(inside.substring(inside.lastIndexOf(':') + 1));
                cluster.advertise(node.get("name").getAsString(), host + ":" + port.applyAsInt(number));
            }
        }
        return cluster;
    }

    /** The NameServer's address, for clients: {@code host:port}. */
    public String namesrv() {
        return namesrv;
    }

    /** The control address: {@code http://host:port}. */
    public String control() {
        return control.url;
    }

    /** Ends a node as kill -9 does: it does not unregister, its peers see their connections close. */
    public void kill(String node) {
        carryOut(node, "kill");
    }

    /** Starts a node that is stopped or dead, at the same address, with its store. */
    public void start(String node) {
        carryOut(node, "start");
    }

    /** Ends a node cleanly: it unregisters and saves its tables. */
    public void stop(String node) {
        carryOut(node, "stop");
    }

    /** Kills a node and starts it again. */
    public void restart(String node) {
        carryOut(node, "restart");
    }

    /** Pauses a node, as SIGSTOP does: its connections stay open, it answers nothing. */
    public void pause(String node) {
        carryOut(node, "pause");
    }

    /** Lets a paused node continue. */
    public void resume(String node) {
        carryOut(node, "resume");
    }

    /** Resets the cluster: no messages, no faults, all nodes running; clients stay connected. */
    public void reset() {
        control.call("POST", "/reset", "");
    }

    /** Delivers now the delayed messages and retries that are due within that time. */
    public void advance(Duration time) {
        control.call("POST", "/advance", "{\"time\": " + time.toMillis() + "}");
    }

    /** Lets a broker register another address for clients: {@code host:port}. */
    public void advertise(String broker, String address) {
        JsonObject body = new JsonObject();
        body.addProperty("address", address);
        control.call("POST", "/nodes/" + broker + "/advertise", body.toString());
    }

    /**
     * Begins a fault, a JSON object as docs/faults.md has them: {@code {"fault": "pause", "node":
     * "broker-b"}}. Closing what is returned ends it and undoes its change.
     */
    public Fault fault(String json) {
        return new Fault(control, control.call("POST", "/faults", json).get("fault_id").getAsLong());
    }

    /** Calls the control address with a body of JSON, or an empty one; see docs/control.md. */
    public JsonObject call(String method, String path, String body) {
        return control.call(method, path, body);
    }

    /** Ends the cluster that was started, or its container. */
    @Override
    public void close() throws Exception {
        owner.close();
    }

    private void carryOut(String node, String verb) {
        control.call("POST", "/nodes/" + node + "/" + verb, "");
    }

    private static BufferedReader lines(InputStream stream) {
        return new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8));
    }

    /** Errors and warnings of the nodes; what they say when the cluster is ended is of no use. */
    private static void passOn(BufferedReader lines, AtomicBoolean isEnding) {
        Thread thread = new Thread(
            () -> lines.lines().filter(line -> !isEnding.get()).forEach(System.err::println), "rmqemu up");
        thread.setDaemon(true);
        thread.start();
    }

    private static void end(Process process, Path store) throws InterruptedException, IOException {
        process.destroy();
        if (!process.waitFor(STOP_S_MAX, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
        delete(store);
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> found = Files.walk(folder)) {
            found.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }

    private static List<String> command() {
        String given = System.getenv("RMQEMU");
        return Arrays.asList((given == null || given.isEmpty() ? "rmqemu" : given).split(" "));
    }
}
