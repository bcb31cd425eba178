package rocketmq.emulator.junit;

/** The cluster refused a call, or could not carry it out; the text gives the reason. */
public final class ControlCallFailed extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ControlCallFailed(String reason) {
        super(reason);
    }
}
