import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/** Every message that a broker acknowledged is consumed, although the broker was killed. */
@ExtendWith(RocketMqExtension.class)
class BrokerDiesTest {
    private static final int MESSAGES = 600;
    private static final int POLL_MS = 1_000; // how often clients poll routes; with the default, 30 s, the test would take longer
    private static final int SEND_MS_MAX = 10_000;
    private static final long CONSUME_MS_MAX = 60_000;

    private final Set<String> consumed = ConcurrentHashMap.newKeySet();
    private final Set<String> acknowledged = new TreeSet<>();
    private final Set<String> brokers = new TreeSet<>();

    @Test
    @Timeout(value = 3, unit = TimeUnit.MINUTES)
    void nothingAcknowledgedIsLostWhenABrokerDiesAndComesBack(RocketMqCluster cluster) throws Exception {
        DefaultMQProducer producer = producer(cluster.namesrv());
        DefaultMQPushConsumer consumer = consumer(cluster.namesrv());
        try {
            for (int number = 0; number < MESSAGES; number++) {
                if (number == MESSAGES / 3) {
                    cluster.kill("broker-b");
                }
                if (number == MESSAGES * 2 / 3) {
                    assertTrue(brokers.contains("broker-b"), "it had messages when it was killed");
                    cluster.start("broker-b");
                }
                send(producer, "order-" + number);
            }
            waitUntilConsumed();
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
        assertTrue(acknowledged.size() > MESSAGES / 2, "most sends succeed all the time");
    }

    /** A failed send is not a loss: its message was not acknowledged. */
    private void send(DefaultMQProducer producer, String text) throws InterruptedException {
        Message message = new Message("orders", text.getBytes(StandardCharsets.UTF_8));
        try {
            SendResult result = producer.send(message, SEND_MS_MAX);
            assertEquals(SendStatus.SEND_OK, result.getSendStatus());
            acknowledged.add(text);
            brokers.add(result.getMessageQueue().getBrokerName());
        } catch (MQClientException | MQBrokerException | RemotingException failed) {
            System.out.println(text + " was not acknowledged: " + failed.getMessage());
        }
    }

    private void waitUntilConsumed() throws InterruptedException {
        long untilMs = System.currentTimeMillis() + CONSUME_MS_MAX;
        while (!consumed.containsAll(acknowledged) && System.currentTimeMillis() < untilMs) {
            Thread.sleep(100);
        }
        Set<String> lost = new TreeSet<>(acknowledged);
        lost.removeAll(consumed);
        assertEquals(Set.of(), lost, "acknowledged and not consumed");
    }

    private static DefaultMQProducer producer(String namesrv) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("broker dies"); // clients of one name share settings and NameServers
        producer.setPollNameServerInterval(POLL_MS);
        producer.start();
        return producer;
    }

    private DefaultMQPushConsumer consumer(String namesrv) throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("broker dies");
        consumer.setPollNameServerInterval(POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> consumed.add(new String(m.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }
}
