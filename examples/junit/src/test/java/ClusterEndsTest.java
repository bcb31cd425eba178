import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.UncheckedIOException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/** A cluster that does not start, or that ends too early, says why, and does not stop other tests. */
class ClusterEndsTest {
    @RegisterExtension
    static final RocketMqExtension ROCKETMQ = RocketMqExtension.with("--brokers", "1");

    @Test
    void aBadOptionIsInTheException() {
        Exception failed = assertThrows(UncheckedIOException.class, () -> RocketMqCluster.start("--brokers", "few"));
        assertTrue(failed.getMessage().contains("ended with code 2"), failed.getMessage());
        assertTrue(failed.getMessage().contains("--brokers is a whole number, not 'few'"), failed.getMessage());
    }

    @RepeatedTest(2)
    void aTestAfterTheEndOfAClusterHasANewOne(RocketMqCluster cluster) throws Exception {
        assertEquals(2, cluster.call("GET", "/nodes", "").getAsJsonArray("nodes").size());
        ProcessHandle up = ProcessHandle.current().children()
            .filter(child -> child.info().commandLine().orElse("").endsWith("--brokers 1"))
            .findAny().orElseThrow();
        up.destroyForcibly();
        up.onExit().get(1, TimeUnit.MINUTES);
    }
}
