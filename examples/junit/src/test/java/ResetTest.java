import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
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
        DefaultMQProducer producer = producer(cluster);
        try {
            SendResult result = producer.send(new Message("tea", "one cup".getBytes(StandardCharsets.UTF_8)));
            assertEquals(0, result.getQueueOffset());
        } finally {
            producer.shutdown();
        }
        cluster.kill("broker-b");
    }

    @Test
    void aFaultThatHasEndedCanBeClosed(RocketMqCluster cluster) {
        try (Fault fault = cluster.fault("{\"fault\": \"pause\", \"node\": \"broker-b\"}")) {
            fault.close();
            assertEquals("running", state(cluster, "broker-b"));
        }
        try (Fault fault = cluster.fault("{\"fault\": \"pause\", \"node\": \"broker-b\"}")) {
            cluster.reset();
        }
    }

    @Test
    void delayedMessagesAreDueWhenTheirTimeIsAdvanced(RocketMqCluster cluster) throws Exception {
        cluster.createTopic("tea", 1);
        DefaultMQProducer producer = producer(cluster);
        try {
            Message message = new Message("tea", "one cup".getBytes(StandardCharsets.UTF_8));
            message.setDelayTimeLevel(16); // 30 min
            producer.send(message);
        } finally {
            producer.shutdown();
        }
        assertEquals(0, cluster.advance(Duration.ofMinutes(20)));
        assertEquals(1, cluster.advance(Duration.ofMinutes(20)));
    }

    private static DefaultMQProducer producer(RocketMqCluster cluster) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.namesrv());
        producer.setInstanceName("reset");
        producer.setMqClientApiTimeout(MS_MAX);
        producer.setSendMsgTimeout(MS_MAX);
        producer.start();
        return producer;
    }

    private static String state(RocketMqCluster cluster, String node) {
        return cluster.call("GET", "/nodes/" + node, "").get("state").getAsString();
    }
}
