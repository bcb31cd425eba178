package rocketmq.emulator.junit;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;

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
     * "3"}. It ends with {@link #close}, or with this process, also if that is killed. Acknowledged
     * messages survive a kill of a broker.
     *
     * @throws UncheckedIOException if {@code rmqemu} is not found or does not start; with its errors
     */
    public static RocketMqCluster start(String... options) {
        try {
            UpProcess up = new UpProcess(List.of(options));
            try {
                JsonObject ready = up.ready();
                ControlAddress control = new ControlAddress(ready.get("control").getAsString());
                return new RocketMqCluster(ready.get("namesrv").getAsString(), control, up);
            } catch (IOException failed) {
                closeQuietly(up);
                throw failed;
            }
        } catch (IOException failed) {
            throw new UncheckedIOException(failed.getMessage(), failed);
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

    /** Delivers now the delayed messages and retries that are due within that time; returns their number. */
    public long advance(Duration time) {
        JsonObject answer = control.call("POST", "/advance", "{\"time\": " + time.toMillis() + "}");
        return answer.get("due_count").getAsLong();
    }

    /**
     * Creates a topic, or changes it, with so many queues on each broker that runs; a reset removes
     * it. Returns these brokers; a line on standard error names the others. A consumer that starts
     * after that need not wait for its next look at the routes.
     */
    public List<String> createTopic(String topic, int queues) {
        JsonObject wanted = new JsonObject();
        wanted.addProperty("topic", topic);
        wanted.addProperty("queues", queues);
        JsonObject made = control.call("POST", "/topics", wanted.toString());
        String warning = made.get("warning").getAsString();
        if (!warning.isEmpty()) {
            System.err.println("createTopic: " + warning);
        }
        List<String> brokers = new ArrayList<>();
        made.getAsJsonArray("brokers").forEach(name -> brokers.add(name.getAsString()));
        return brokers;
    }

    /**
     * The likely mistakes of clients that the running brokers have noticed since their start or the
     * last reset, a sentence with the cure for each: see docs/pytest.md.
     */
    public List<String> misuses() {
        List<String> texts = new ArrayList<>();
        for (JsonElement each : control.call("GET", "/misuses", "").getAsJsonArray("misuses")) {
            texts.add(each.getAsJsonObject().get("text").getAsString());
        }
        return texts;
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

    /** Whether its process, if it has one, has ended by itself; how is in {@link #ending}. */
    boolean hasEnded() {
        return owner instanceof UpProcess && !((UpProcess) owner).isAlive();
    }

    String ending() {
        return ((UpProcess) owner).ending();
    }

    private static void closeQuietly(UpProcess up) {
        try {
            up.close();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
