// Sends one message and consumes it, with the official Java client (org.apache.rocketmq:rocketmq-client).
//
//   java -cp "JARS/*" examples/java/Hello.java 127.0.0.1:9876

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class Hello {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("hello-java-writers");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        byte[] body = "from Java".getBytes(StandardCharsets.UTF_8);
        System.out.println(producer.send(new Message("hello-java", body)).getSendStatus());
        producer.shutdown();

        CountDownLatch heard = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("hello-java-readers");
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("hello-java", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> System.out.println(new String(m.getBody(), StandardCharsets.UTF_8)));
            heard.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        heard.await();
        consumer.shutdown();
    }
}
