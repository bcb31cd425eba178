import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Every kind of trace that the official client writes, in one story; tests/sdk/trace_recording.py records the bodies.
 *
 * <p>It uses only names that 4.9.8 and 5.3.3 have in common. Arguments: the NameServer, the topic, and "transactions" if
 * the broker takes them. It ends when everything is consumed and traced.
 */
public final class TraceStory {
    private static final Map<String, AtomicInteger> DELIVERIES = new ConcurrentHashMap<>();

    private TraceStory() {}

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        boolean transacts = arguments.length > 2;
        int messages = transacts ? 10 : 8;
        CountDownLatch twice = new CountDownLatch(2 * messages);
        send(namesrv, topic);
        if (transacts) {
            transact(namesrv, topic);
        }
        DefaultMQPushConsumer concurrent = consumer(namesrv, topic, "trace-concurrent");
        concurrent.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            return outcome(given.get(0), twice);
        });
        DefaultMQPushConsumer orderly = consumer(namesrv, topic, "trace-orderly");
        AtomicInteger suspensions = new AtomicInteger();
        orderly.registerMessageListener((MessageListenerOrderly) (given, context) -> {
            context.setSuspendCurrentQueueTimeMillis(10);
            if (suspensions.getAndIncrement() == 0) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            twice.countDown();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        concurrent.start();
        orderly.start();
        boolean complete = twice.await(60, TimeUnit.SECONDS);
        Thread.sleep(6_000); // 5.3.3 sends the last traces after five seconds
        concurrent.shutdown();
        orderly.shutdown();
        System.out.println(complete ? "complete" : "incomplete: " + twice.getCount());
        System.exit(complete ? 0 : 1);
    }

    private static void send(String namesrv, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("trace-producers", null, true, null);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        producer.send(message(topic, "TagA", "k1 k2", "fine"));
        producer.send(message(topic, null, null, "no tag, no key"));
        producer.send(message(topic, "TagB", "clé", "refused once"));
        Message late = message(topic, "TagA", "late", "delayed");
        late.setDelayTimeLevel(1);
        producer.send(late);
        CountDownLatch stored = new CountDownLatch(1);
        producer.send(message(topic, "TagA", "async", "raises once"), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                stored.countDown();
            }

            @Override
            public void onException(Throwable problem) {
                problem.printStackTrace();
            }
        });
        stored.await();
        producer.sendOneway(message(topic, "TagA", "one-way", "null once"));
        List<Message> batch = new ArrayList<>();
        batch.add(message(topic, "TagA", "b1", "of a batch"));
        batch.add(message(topic, "TagA", "b2", "of a batch, too"));
        producer.send(batch);
        producer.shutdown();
    }

    private static void transact(String namesrv, String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(null, "trace-transactions", null, true, null);
        producer.setNamesrvAddr(namesrv);
        CountDownLatch checked = new CountDownLatch(1);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
                return (LocalTransactionState) outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (!"t3".equals(message.getKeys())) {
                    return LocalTransactionState.UNKNOW; // 5.x may check an ended one, before its op record is written
                }
                checked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        producer.sendMessageInTransaction(message(topic, "TagT", "t1", "committed"), LocalTransactionState.COMMIT_MESSAGE);
        producer.sendMessageInTransaction(message(topic, "TagT", "t2", "rolled back"), LocalTransactionState.ROLLBACK_MESSAGE);
        producer.sendMessageInTransaction(message(topic, null, "t3", "checked"), LocalTransactionState.UNKNOW);
        checked.await(90, TimeUnit.SECONDS);
        Thread.sleep(500); // the answer to the check is traced after the listener has returned
        producer.shutdown();
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, null, new AllocateMessageQueueAveragely(), true, null);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    /** Three messages fail at their first delivery, each in another way. */
    private static ConsumeConcurrentlyStatus outcome(MessageExt message, CountDownLatch twice) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        int delivery = DELIVERIES.computeIfAbsent(body, any -> new AtomicInteger()).incrementAndGet();
        if (delivery == 1) {
            switch (body) {
                case "refused once":
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                case "raises once":
                    throw new IllegalStateException("as the story wants it");
                case "null once":
                    return null;
                default:
            }
        }
        twice.countDown();
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static Message message(String topic, String tag, String keys, String body) {
        return new Message(topic, tag, keys, body.getBytes(StandardCharsets.UTF_8));
    }
}
