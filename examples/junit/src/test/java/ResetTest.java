import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.ExtendWith;

/** The same cluster is empty at the start of each test, after any actions of the test before. */
@ExtendWith(RocketMqExtension.class)
class ResetTest {
    @RepeatedTest(3)
    void theFirstMessageOfATestIsTheFirstOfItsQueue(MiniCluster cluster) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.namesrv);
        producer.start();
        try {
            SendResult result = producer.send(new Message("tea", "one cup".getBytes(StandardCharsets.UTF_8)));
            assertEquals(0, result.getQueueOffset());
        } finally {
            producer.shutdown();
        }
        cluster.kill("broker-b");
    }
}
