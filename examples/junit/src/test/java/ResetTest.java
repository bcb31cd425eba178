import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.ExtendWith;
import rocketmq.emulator.junit.Fault;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/** The cluster is empty at the start of each test, after any actions of the test before. */
@ExtendWith(RocketMqExtension.class)
class ResetTest {
    private static final int MS_MAX = 30_000; // a machine on which other suites run may be slow

    @RepeatedTest(3)
    void theFirstMessageOfATestIsTheFirstOfItsQueue(RocketMqCluster cluster) throws Exception {
        try (Fault fault = cluster.fault("{\"fault\": \"kill\", \"node\": \"broker-b\", \"for\": \"1m\"}")) {
            assertEquals("dead", state(cluster, "broker-b"));
        }
        assertEquals("running", state(cluster, "broker-b"));
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.namesrv());
        producer.setInstanceName("reset");
        producer.setMqClientApiTimeout(MS_MAX);
        producer.setSendMsgTimeout(MS_MAX);
        producer.start();
        try {
            SendResult result = producer.send(new Message("tea", "one cup".getBytes(StandardCharsets.UTF_8)));
            assertEquals(0, result.getQueueOffset());
        } finally {
            producer.shutdown();
        }
        cluster.kill("broker-b");
    }

    private static String state(RocketMqCluster cluster, String node) {
        return cluster.call("GET", "/nodes/" + node, "").get("state").getAsString();
    }
}
