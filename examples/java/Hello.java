// Sends one message and consumes it, with the official Java client (org.apache.rocketmq:rocketmq-client).
//
//   make -C examples/java run                 # or: make run NAMESRV=HOST:PORT

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class Hello {
    static final int SEND_MS_MAX = 10_000; // the first send also connects

    public static void main(String[] args) throws Exception {
        send(args[0]);
        consume(args[0]);
    }

    static void send(String namesrv) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("hello-java-writers");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        try {
            byte[] body = "from Java".getBytes(StandardCharsets.UTF_8);
            Message message = new Message("hello-java", body);
            System.out.println(producer.send(message, SEND_MS_MAX).getSendStatus());
        } finally {
            producer.shutdown(); // otherwise its threads keep the program running
        }
    }

    static void consume(String namesrv) throws Exception {
        CountDownLatch heard = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("hello-java-readers");
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(3_000); // time to commit the offsets of consumed messages
        consumer.subscribe("hello-java", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> System.out.println(new String(m.getBody(), StandardCharsets.UTF_8)));
            heard.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            heard.await();
        } finally {
            consumer.shutdown();
        }
    }
}
