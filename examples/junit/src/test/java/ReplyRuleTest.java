import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/** A busy broker: a rule is of one node, so there is only one, and every send reaches it. */
class ReplyRuleTest {
    private static final int MS_MAX = 30_000; // a machine on which other suites run may be slow
    private static final String BUSY =
        "{\"code\": \"SEND_MESSAGE_V2\", \"topic\": \"orders\", \"count\": 1, \"error_code\": \"SYSTEM_BUSY\"}";

    @RegisterExtension
    static final RocketMqExtension ROCKETMQ = RocketMqExtension.with("--brokers", "1", "--release", "5.3.3");

    @Test
    void aBusyBrokerIsReported(RocketMqCluster cluster) throws Exception {
        cluster.createTopic("orders", 4);
        cluster.call("POST", "/nodes/broker-a/reply-rules", BUSY);
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.namesrv());
        producer.setInstanceName("busy");
        producer.setMqClientApiTimeout(MS_MAX);
        producer.setSendMsgTimeout(MS_MAX);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            Message message = new Message("orders", "two cups".getBytes(StandardCharsets.UTF_8));
            assertThrows(MQBrokerException.class, () -> producer.send(message));
            assertEquals(SendStatus.SEND_OK, producer.send(message).getSendStatus());
        } finally {
            producer.shutdown();
        }
    }
}
