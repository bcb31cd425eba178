import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.springframework.context.annotation.Import;
import org.springframework.messaging.Message;

/** A listener for each feature that receives; topic and group are named by the feature. */
@Import({
    Listeners.SendSync.class,
    Listeners.SendAsync.class,
    Listeners.SendOneway.class,
    Listeners.SendBatch.class,
    Listeners.SendBySelector.class,
    Listeners.SendDelayLevel.class,
    Listeners.SendDelayMs.class,
    Listeners.SendDeliverAt.class,
    Listeners.TransactionCommit.class,
    Listeners.TransactionRollback.class,
    Listeners.TransactionCheckCommit.class,
    Listeners.ConsumeConcurrently.class,
    Listeners.SendProperties.class,
    Listeners.ConsumeOrderly.class,
    Listeners.ConsumeBroadcasting.class,
    Listeners.ConsumeTags.class,
    Listeners.ConsumeSql.class,
    Listeners.TraceConsume.class,
    Listeners.ConsumeBroadcasting2.class,
    Listeners.ConsumeRetry.class,
    Listeners.Trace.class,
    Listeners.RequestSync.class,
    Listeners.RequestAsync.class,
    Listeners.Ends.class
})
class Listeners {
    static final Received CHECKED = new Received();
    private static final Map<String, Received> RECEIVED = new ConcurrentHashMap<>();

    static Received of(String feature) {
        return RECEIVED.computeIfAbsent(feature, name -> new Received());
    }

    /** Puts the texts of a topic to what its feature has received. */
    abstract static class Texts implements RocketMQListener<MessageExt>, RocketMQPushConsumerLifecycleListener {
        private final String feature;

        Texts(String feature) {
            this.feature = feature;
        }

        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setInstanceName(feature);
            consumer.setHeartbeatBrokerInterval(1_000);
            consumer.setPersistConsumerOffsetInterval(1_000);
            consumer.setPollNameServerInterval(1_000);
        }

        @Override
        public void onMessage(MessageExt message) {
            of(feature).put(shown(message));
        }

        String shown(MessageExt message) {
            return new String(message.getBody(), StandardCharsets.UTF_8);
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-sync", consumerGroup = "${topics}-send-sync")
    static final class SendSync extends Texts {
        SendSync() {
            super("send-sync");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-async", consumerGroup = "${topics}-send-async")
    static final class SendAsync extends Texts {
        SendAsync() {
            super("send-async");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-oneway", consumerGroup = "${topics}-send-oneway")
    static final class SendOneway extends Texts {
        SendOneway() {
            super("send-oneway");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-batch", consumerGroup = "${topics}-send-batch")
    static final class SendBatch extends Texts {
        SendBatch() {
            super("send-batch");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-by-selector", consumerGroup = "${topics}-send-by-selector")
    static final class SendBySelector extends Texts {
        SendBySelector() {
            super("send-by-selector");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-delay-level", consumerGroup = "${topics}-send-delay-level")
    static final class SendDelayLevel extends Texts {
        SendDelayLevel() {
            super("send-delay-level");
        }

        @Override
        String shown(MessageExt message) {
            boolean late = message.getStoreTimestamp() - message.getBornTimestamp() >= 900;
            return late ? super.shown(message) : "delivered at once";
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-delay-ms", consumerGroup = "${topics}-send-delay-ms")
    static final class SendDelayMs extends Texts {
        SendDelayMs() {
            super("send-delay-ms");
        }

        @Override
        String shown(MessageExt message) {
            boolean late = message.getStoreTimestamp() - message.getBornTimestamp() >= 900;
            return late ? super.shown(message) : "delivered at once";
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-deliver-at", consumerGroup = "${topics}-send-deliver-at")
    static final class SendDeliverAt extends Texts {
        SendDeliverAt() {
            super("send-deliver-at");
        }

        @Override
        String shown(MessageExt message) {
            boolean late = message.getStoreTimestamp() - message.getBornTimestamp() >= 900;
            return late ? super.shown(message) : "delivered at once";
        }
    }

    @RocketMQMessageListener(topic = "${topics}-transaction-commit", consumerGroup = "${topics}-transaction-commit")
    static final class TransactionCommit extends Texts {
        TransactionCommit() {
            super("transaction-commit");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-transaction-rollback", consumerGroup = "${topics}-transaction-rollback")
    static final class TransactionRollback extends Texts {
        TransactionRollback() {
            super("transaction-rollback");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-transaction-check-commit", consumerGroup = "${topics}-transaction-check-commit")
    static final class TransactionCheckCommit extends Texts {
        TransactionCheckCommit() {
            super("transaction-check-commit");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-concurrently", consumerGroup = "${topics}-consume-concurrently")
    static final class ConsumeConcurrently extends Texts {
        ConsumeConcurrently() {
            super("consume-concurrently");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-send-properties", consumerGroup = "${topics}-send-properties")
    static final class SendProperties extends Texts {
        SendProperties() {
            super("send-properties");
        }

        @Override
        String shown(MessageExt message) {
            return message.getTags() + " " + message.getKeys() + " " + message.getUserProperty("colour");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-orderly", consumerGroup = "${topics}-consume-orderly",
            consumeMode = ConsumeMode.ORDERLY)
    static final class ConsumeOrderly extends Texts {
        ConsumeOrderly() {
            super("consume-orderly");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-broadcasting", consumerGroup = "${topics}-consume-broadcasting",
            messageModel = MessageModel.BROADCASTING)
    static final class ConsumeBroadcasting extends Texts {
        ConsumeBroadcasting() {
            super("consume-broadcasting");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-tags", consumerGroup = "${topics}-consume-tags",
            selectorExpression = "paid || sent")
    static final class ConsumeTags extends Texts {
        ConsumeTags() {
            super("consume-tags");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-sql", consumerGroup = "${topics}-consume-sql",
            selectorType = SelectorType.SQL92, selectorExpression = "price > 20")
    static final class ConsumeSql extends Texts {
        ConsumeSql() {
            super("consume-sql");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-trace-consume", consumerGroup = "${topics}-trace-consume",
            enableMsgTrace = true)
    static final class TraceConsume extends Texts {
        TraceConsume() {
            super("trace-consume");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-broadcasting", consumerGroup = "${topics}-consume-broadcasting",
            messageModel = MessageModel.BROADCASTING)
    static final class ConsumeBroadcasting2 extends Texts {
        ConsumeBroadcasting2() {
            super("consume-broadcasting-2");
        }
    }

    @RocketMQMessageListener(topic = "${topics}-consume-retry", consumerGroup = "${topics}-consume-retry",
            delayLevelWhenNextConsume = 1)
    static final class ConsumeRetry extends Texts {
        ConsumeRetry() {
            super("consume-retry");
        }

        @Override
        public void onMessage(MessageExt message) {
            super.onMessage(message);
            Main.holds(message.getReconsumeTimes() > 0, "the first delivery fails");
        }
    }

    @RocketMQMessageListener(topic = "RMQ_SYS_TRACE_TOPIC", consumerGroup = "${topics}-trace")
    static final class Trace extends Texts {
        Trace() {
            super("trace");
        }

        @Override
        String shown(MessageExt message) {
            return message.getKeys() + " " + super.shown(message);
        }
    }

    @RocketMQMessageListener(topic = "${topics}-request-sync", consumerGroup = "${topics}-request-sync")
    static final class RequestSync extends Replies {}

    @RocketMQMessageListener(topic = "${topics}-request-async", consumerGroup = "${topics}-request-async")
    static final class RequestAsync extends Replies {}

    abstract static class Replies implements RocketMQReplyListener<String, String>, RocketMQPushConsumerLifecycleListener {
        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setInstanceName("replies-" + getClass().getSimpleName());
            consumer.setHeartbeatBrokerInterval(1_000);
        }

        @Override
        public String onMessage(String question) {
            return "answer to " + question;
        }
    }

    /** The argument of a transaction says how it ends. */
    @RocketMQTransactionListener
    static final class Ends implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return switch (String.valueOf(argument)) {
                case "commit" -> RocketMQLocalTransactionState.COMMIT;
                case "rollback" -> RocketMQLocalTransactionState.ROLLBACK;
                default -> RocketMQLocalTransactionState.UNKNOWN;
            };
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            CHECKED.put(new String((byte[]) message.getPayload(), StandardCharsets.UTF_8));
            return RocketMQLocalTransactionState.COMMIT;
        }
    }
}
