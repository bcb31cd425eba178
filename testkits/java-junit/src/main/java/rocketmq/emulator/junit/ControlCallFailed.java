package rocketmq.emulator.junit;

/** The cluster refused a call, or could not carry it out; the text gives the reason. */
public final class ControlCallFailed extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int status;

    ControlCallFailed(String reason, int status) {
        super(reason);
        this.status = status;
    }

    /** The HTTP status of the answer, as 404 for a node that does not exist; 0 without an answer. */
    public int status() {
        return status;
    }
}
