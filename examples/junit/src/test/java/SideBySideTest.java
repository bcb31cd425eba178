import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/** Test classes that run at the same time have a cluster each: none resets that of the other. */
@ExtendWith(RocketMqExtension.class)
class SideBySideTest {
    private static final CountDownLatch BOTH = new CountDownLatch(2);
    private static final Map<String, String> CLUSTERS = new ConcurrentHashMap<>();

    static void meet(String name, RocketMqCluster cluster) throws InterruptedException {
        CLUSTERS.put(name, cluster.namesrv());
        BOTH.countDown();
        assertTrue(BOTH.await(3, TimeUnit.MINUTES), "the other class runs at the same time");
        assertNotEquals(CLUSTERS.get("one"), CLUSTERS.get("other"));
    }

    @Nested
    @Execution(ExecutionMode.CONCURRENT)
    class One {
        @Test
        void hasItsOwnCluster(RocketMqCluster cluster) throws InterruptedException {
            meet("one", cluster);
        }
    }

    @Nested
    @Execution(ExecutionMode.CONCURRENT)
    class Other {
        @Test
        void hasItsOwnCluster(RocketMqCluster cluster) throws InterruptedException {
            meet("other", cluster);
        }
    }
}
