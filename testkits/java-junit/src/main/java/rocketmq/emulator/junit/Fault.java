package rocketmq.emulator.junit;

/** A fault of a running cluster, which ends with its block: {@code try (Fault fault = cluster.fault(…))}. */
public final class Fault implements AutoCloseable {
    private static final int NOT_FOUND = 404;

    private final ControlAddress control;
    private final long id;
    private boolean isClosed;

    Fault(ControlAddress control, long id) {
        this.control = control;
        this.id = id;
    }

    /**
     * Ends the fault and undoes its change; a node that it killed is ready again. Does nothing if the
     * fault has ended: its time was up, a reset has ended it, or this is the second call.
     */
    @Override
    public synchronized void close() {
        if (isClosed) {
            return;
        }
        try {
            control.call("DELETE", "/faults/" + id, "");
        } catch (ControlCallFailed failed) {
            if (failed.status() != NOT_FOUND) {
                throw failed;
            }
        }
        isClosed = true;
    }
}
