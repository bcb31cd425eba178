import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions, and requests that wait for a reply. */
final class Transactions {
    private Transactions() {}

    static void enrol(Map<String, Main.Check> features) {
        features.put("transaction-commit", Transactions::commit);
        features.put("transaction-rollback", Transactions::rollback);
        features.put("transaction-check-commit", lab -> checked(lab, LocalTransactionState.COMMIT_MESSAGE));
        features.put("transaction-check-rollback", lab -> checked(lab, LocalTransactionState.ROLLBACK_MESSAGE));
        features.put("request-sync", Transactions::requestSync);
        features.put("request-async", Transactions::requestAsync);
        features.put("request-to-queue", Transactions::requestToQueue);
    }

    private static void commit(Lab lab) throws Exception {
        TransactionMQProducer producer = lab.started(ending(lab, LocalTransactionState.COMMIT_MESSAGE));
        Lab.stored(producer.sendMessageInTransaction(lab.message("committed"), null));
        lab.inbox().takeOnly("committed");
    }

    /** A message that is sent later arrives alone. */
    private static void rollback(Lab lab) throws Exception {
        TransactionMQProducer producer = lab.started(ending(lab, LocalTransactionState.ROLLBACK_MESSAGE));
        Lab.stored(producer.sendMessageInTransaction(lab.message("rolled back"), null));
        Lab.stored(producer.send(lab.message("plain")));
        Lab.Inbox inbox = lab.inbox();
        inbox.takeOnly("plain");
        inbox.holdsNothing();
    }

    /** The listener does not know at first; the broker asks again. */
    private static void checked(Lab lab, LocalTransactionState answer) throws Exception {
        CompletableFuture<String> asked = new CompletableFuture<>();
        TransactionMQProducer producer = new TransactionMQProducer(lab.group + "-producer");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.complete(Lab.text(message));
                return answer;
            }
        });
        Lab.stored(lab.started(producer).sendMessageInTransaction(lab.message("checked"), null));
        Lab.equal("checked", Lab.until(() -> asked.getNow(null), "the broker asks for the state"), "the checked message");
        Lab.stored(producer.send(lab.message("plain")));
        Lab.Inbox inbox = lab.inbox();
        int expected = answer == LocalTransactionState.COMMIT_MESSAGE ? 2 : 1;
        long committed = inbox.take(expected).stream().filter(m -> Lab.text(m).equals("checked")).count();
        Lab.equal((long) expected - 1, committed, "the number of committed messages");
        inbox.holdsNothing();
    }

    private static TransactionMQProducer ending(Lab lab, LocalTransactionState state) {
        TransactionMQProducer producer = new TransactionMQProducer(lab.group + "-producer");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return state;
            }
        });
        return producer;
    }

    private static void requestSync(Lab lab) throws Exception {
        replier(lab);
        Message reply = requester(lab).request(lab.message("question"), Lab.SEND_MS_MAX);
        Lab.equal("answer to question", Lab.text(reply), "the reply");
    }

    private static void requestAsync(Lab lab) throws Exception {
        replier(lab);
        Promise promise = new Promise();
        requester(lab).request(lab.message("question"), promise, Lab.SEND_MS_MAX);
        Lab.equal("answer to question", promise.get(), "the reply");
    }

    private static void requestToQueue(Lab lab) throws Exception {
        replier(lab);
        DefaultMQProducer producer = requester(lab);
        var queue = producer.fetchPublishMessageQueues(lab.topic).get(1);
        Message reply = producer.request(lab.message("question"), queue, Lab.SEND_MS_MAX);
        Lab.equal("answer to question", Lab.text(reply), "the reply");
    }

    /** A producer that is registered at the broker: replies to one that is not are lost. */
    private static DefaultMQProducer requester(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        Lab.stored(producer.send(lab.message("gets no reply")));
        Thread.sleep(2_500); // two heartbeats
        return producer;
    }

    /** A consumer that replies to each message. */
    private static void replier(Lab lab) throws Exception {
        DefaultMQProducer replies = lab.started(new DefaultMQProducer(lab.group + "-replies"));
        DefaultMQPushConsumer consumer = lab.consumer();
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    if (MessageUtil.getReplyToClient(message) == null) {
                        continue;
                    }
                    replies.send(MessageUtil.createReplyMessage(message, ("answer to " + Lab.text(message)).getBytes()));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception problem) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
        });
        lab.start(consumer);
    }

    private static final class Promise implements RequestCallback {
        private final CompletableFuture<String> result = new CompletableFuture<>();

        @Override
        public void onSuccess(Message message) {
            result.complete(Lab.text(message));
        }

        @Override
        public void onException(Throwable problem) {
            result.completeExceptionally(problem);
        }

        String get() throws Exception {
            return result.get(Lab.WAIT_S_MAX, TimeUnit.SECONDS);
        }
    }
}
