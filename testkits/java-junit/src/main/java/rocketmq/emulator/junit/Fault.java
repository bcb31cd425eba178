package rocketmq.emulator.junit;

/** A fault of a running cluster, which ends with its block: {@code try (Fault fault = cluster.fault(…))}. */
public final class Fault implements AutoCloseable {
    private final ControlAddress control;
    private final long id;

    Fault(ControlAddress control, long id) {
        this.control = control;
        this.id = id;
    }

    /** Ends the fault and undoes its change; a node that it killed is ready again. */
    @Override
    public void close() {
        control.call("DELETE", "/faults/" + id, "");
    }
}
