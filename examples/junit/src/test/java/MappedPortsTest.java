import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.RegisterExtension;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/**
 * A cluster behind ports that are mapped, as by Testcontainers, whose {@code
 * container.getMappedPort(9876)} MAPPED_PORTS stands for: {@code 9876=32801,9875=32802,…}.
 */
@EnabledIfEnvironmentVariable(named = "MAPPED_PORTS", matches = ".+")
class MappedPortsTest {
    private static final int MS_MAX = 30_000; // a machine on which other suites run may be slow

    @RegisterExtension
    static final RocketMqExtension ROCKETMQ = RocketMqExtension.with(MappedPortsTest::container);

    static RocketMqCluster container() {
        Map<Integer, Integer> ports = Arrays.stream(System.getenv("MAPPED_PORTS").split(","))
            .map(pair -> pair.split("="))
            .collect(Collectors.toMap(pair -> Integer.valueOf(pair[0]), pair -> Integer.valueOf(pair[1])));
        return RocketMqCluster.mapped("localhost", ports::get, () -> { });
    }

    @Test
    void messagesGoThroughTheMappedPorts(RocketMqCluster cluster) throws Exception {
        cluster.createTopic("tea", 4); // else its first message may make it on one broker only
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.namesrv());
        producer.setInstanceName("mapped");
        producer.setMqClientApiTimeout(MS_MAX);
        producer.setSendMsgTimeout(MS_MAX);
        producer.start();
        try {
            for (int number = 0; number < 8; number++) {
                Message message = new Message("tea", "one cup".getBytes(StandardCharsets.UTF_8));
                assertEquals(SendStatus.SEND_OK, producer.send(message).getSendStatus());
            }
        } finally {
            producer.shutdown();
        }
    }
}
