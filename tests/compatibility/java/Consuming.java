import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers. A filter is checked in one queue: an unwanted message before a wanted one. */
final class Consuming {
    private Consuming() {}

    static void enrol(Map<String, Main.Check> features) {
        features.put("consume-concurrently", Consuming::concurrently);
        features.put("consume-orderly", Consuming::orderly);
        features.put("consume-broadcasting", Consuming::broadcasting);
        features.put("consume-tags", Consuming::tags);
        features.put("consume-sql", Consuming::sql);
        features.put("consume-batches", Consuming::batches);
        features.put("consume-retry", Consuming::retry);
        features.put("consume-send-back", Consuming::sendBack);
        features.put("consume-dead-letter", Consuming::deadLetter);
        features.put("consume-orderly-suspend", Consuming::orderlySuspend);
        features.put("consume-suspend-resume", Consuming::suspendResume);
        features.put("consume-from-first", lab -> from(lab, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET));
        features.put("consume-from-last", lab -> from(lab, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET));
        features.put("consume-from-timestamp", lab -> from(lab, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP));
        features.put("consume-committed", Consuming::committed);
        features.put("consume-shared", Consuming::shared);
        features.put("consume-assigned-by-broker", Consuming::assignedByBroker);
        features.put("consume-pop", Consuming::pop);
        features.put("heartbeat-v2", Consuming::heartbeatV2);
    }

    private static void concurrently(Lab lab) throws Exception {
        send(lab, 40);
        lab.inbox().take(40);
    }

    private static void orderly(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = firstQueue(lab, producer);
        for (int i = 0; i < 20; i++) {
            Lab.stored(producer.send(lab.message("" + i), queue));
        }
        Lab.Inbox inbox = new Lab.Inbox();
        orderlyConsumer(lab, inbox, message -> true);
        List<MessageExt> found = inbox.take(20);
        for (int i = 0; i < 20; i++) {
            Lab.equal("" + i, Lab.text(found.get(i)), "message " + i);
        }
    }

    private static void broadcasting(Lab lab) throws Exception {
        List<Lab.Inbox> inboxes = List.of(broadcast(lab), broadcast(lab));
        send(lab, 8);
        for (Lab.Inbox inbox : inboxes) {
            inbox.take(8);
        }
    }

    private static Lab.Inbox broadcast(Lab lab) throws Exception {
        return lab.inbox(consumer -> {
            Lab.choose(consumer, "setMessageModel", "BROADCASTING");
            consumer.setInstanceName("broadcast-" + System.nanoTime());
            consumer.subscribe(lab.topic, "*");
        });
    }

    private static void tags(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = firstQueue(lab, producer);
        for (String tag : List.of("open", "paid", "lost", "sent")) {
            Lab.stored(producer.send(lab.message(tag, tag), queue));
        }
        Lab.Inbox inbox = lab.inbox(consumer -> consumer.subscribe(lab.topic, "paid || sent"));
        Set<String> found = new HashSet<>();
        inbox.take(2).forEach(message -> found.add(message.getTags()));
        Lab.equal(Set.of("paid", "sent"), found, "the tags");
    }

    private static void sql(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = firstQueue(lab, producer);
        for (int price : new int[] {5, 50, 7, 70}) {
            Message message = lab.message("" + price);
            message.putUserProperty("price", "" + price);
            Lab.stored(producer.send(message, queue));
        }
        MessageSelector dear = MessageSelector.bySql("price > 20 AND price BETWEEN 1 AND 100");
        Set<String> found = new HashSet<>();
        lab.inbox(consumer -> consumer.subscribe(lab.topic, dear)).take(2).forEach(m -> found.add(Lab.text(m)));
        Lab.equal(Set.of("50", "70"), found, "the messages");
    }

    private static void batches(Lab lab) throws Exception {
        AtomicInteger largest = new AtomicInteger();
        Lab.stored(lab.producer().send(Sending.three(lab)));
        DefaultMQPushConsumer consumer = lab.consumer();
        Lab.Inbox inbox = new Lab.Inbox();
        consumer.setConsumeMessageBatchMaxSize(3);
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            largest.accumulateAndGet(messages.size(), Math::max);
            messages.forEach(inbox::put);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        lab.start(consumer);
        inbox.take(3);
        Lab.equal(3, largest.get(), "the number of messages of a call");
    }

    private static void retry(Lab lab) throws Exception {
        Lab.Inbox inbox = new Lab.Inbox();
        DefaultMQPushConsumer consumer = lab.consumer();
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(inbox::put);
            context.setDelayLevelWhenNextConsume(1);
            boolean first = messages.get(0).getReconsumeTimes() == 0;
            return first ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        lab.start(consumer);
        send(lab, 1);
        List<MessageExt> found = inbox.take(2);
        Lab.equal(1, found.get(1).getReconsumeTimes(), "the number of retries");
        Lab.equal(lab.topic, found.get(1).getTopic(), "the topic of the retried message");
    }

    private static void sendBack(Lab lab) throws Exception {
        Lab.Inbox inbox = new Lab.Inbox();
        DefaultMQPushConsumer consumer = lab.consumer();
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener(inbox.listener());
        lab.start(consumer);
        send(lab, 1);
        consumer.sendMessageBack(inbox.take(1).get(0), 1);
        Lab.equal(1, inbox.take(1).get(0).getReconsumeTimes(), "the number of retries");
    }

    private static void deadLetter(Lab lab) throws Exception {
        DefaultMQPushConsumer refusing = lab.consumer();
        refusing.setMaxReconsumeTimes(0);
        refusing.subscribe(lab.topic, "*");
        refusing.registerMessageListener(
                (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.RECONSUME_LATER);
        lab.start(refusing);
        send(lab, 1);
        Lab.Inbox dead = new Lab.Inbox();
        DefaultMQPushConsumer consumer = lab.ready(new DefaultMQPushConsumer(lab.group + "-dead"));
        consumer.subscribe("%DLQ%" + lab.group, "*");
        consumer.registerMessageListener(dead.listener());
        lab.start(consumer);
        dead.takeOnly("0");
    }

    private static void orderlySuspend(Lab lab) throws Exception {
        AtomicInteger calls = new AtomicInteger();
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = firstQueue(lab, producer);
        for (String body : List.of("first", "second")) {
            Lab.stored(producer.send(lab.message(body), queue));
        }
        Lab.Inbox inbox = new Lab.Inbox();
        orderlyConsumer(lab, inbox, message -> calls.incrementAndGet() > 1);
        inbox.takeOnly("first");
        inbox.takeOnly("first");
        inbox.takeOnly("second");
    }

    /** A consumer that was suspended before it started; what was sent comes when it is resumed. */
    private static void suspendResume(Lab lab) throws Exception {
        Lab.Inbox inbox = new Lab.Inbox();
        DefaultMQPushConsumer consumer = lab.consumer();
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener(inbox.listener());
        lab.start(consumer);
        send(lab, 1);
        inbox.take(1);
        consumer.suspend();
        consumer.resume();
        send(lab, 1);
        inbox.take(1);
    }

    private static void from(Lab lab, ConsumeFromWhere where) throws Exception {
        send(lab, 1);
        Lab.Inbox inbox = lab.inbox(consumer -> {
            consumer.setConsumeFromWhere(where);
            consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(System.currentTimeMillis() - 60_000));
            consumer.subscribe(lab.topic, "*");
        });
        inbox.takeOnly("0"); // a broker answers 0 for new groups of a queue that has lost nothing, whatever is set
    }

    private static void committed(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = firstQueue(lab, producer);
        Lab.stored(producer.send(lab.message("before"), queue));
        Lab.Inbox inbox = new Lab.Inbox();
        DefaultMQPushConsumer consumer = lab.consumer();
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener(inbox.listener());
        consumer.start();
        inbox.takeOnly("before");
        Lab.until(() -> consumer.getDefaultMQPushConsumerImpl().getOffsetStore().readOffset(queue,
                org.apache.rocketmq.client.consumer.store.ReadOffsetType.MEMORY_FIRST_THEN_STORE) == 1 ? true : null, "commit");
        consumer.shutdown();
        Lab.stored(producer.send(lab.message("after"), queue));
        lab.inbox().takeOnly("after");
    }

    private static void shared(Lab lab) throws Exception {
        DefaultMQPushConsumer one = lab.consumer();
        DefaultMQPushConsumer two = lab.consumer();
        for (DefaultMQPushConsumer consumer : List.of(one, two)) {
            consumer.subscribe(lab.topic, "*");
            consumer.registerMessageListener(new Lab.Inbox().listener());
            lab.start(consumer);
        }
        Lab.until(() -> owned(lab, one) == 2 && owned(lab, two) == 2 ? true : null, "two queues each");
    }

    private static long owned(Lab lab, DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(queue -> queue.getTopic().equals(lab.topic)).count();
    }

    private static void assignedByBroker(Lab lab) throws Exception {
        DefaultMQPushConsumer consumer = byBroker(lab);
        Lab.Inbox inbox = new Lab.Inbox();
        consumer.registerMessageListener(inbox.listener());
        lab.start(consumer);
        Object factory = Lab.call(consumer.getDefaultMQPushConsumerImpl(), "getmQClientFactory");
        Object assigned = Lab.call(factory, "queryAssignment", lab.topic, lab.group,
                new AllocateMessageQueueAveragely().getName(), consumer.getMessageModel(), 3_000);
        Lab.holds(assigned != null, "the broker did not assign queues");
        send(lab, 4);
        inbox.take(4);
    }

    private static void pop(Lab lab) throws Exception {
        DefaultMQPushConsumer consumer = byBroker(lab);
        DefaultMQProducer producer = lab.producer();
        Object factory = producer.getDefaultMQProducerImpl().getMqClientFactory();
        Object api = Lab.call(factory, "getMQClientAPIImpl");
        String broker = Lab.stored(producer.send(lab.message("before"))).getMessageQueue().getBrokerName();
        Object address = Lab.call(factory, "findBrokerAddressInPublish", broker);
        Class<?> modes = Class.forName("org.apache.rocketmq.common.message.MessageRequestMode");
        Object mode = modes.getField("POP").get(null);
        Lab.call(api, "setMessageRequestMode", address, lab.topic, lab.group, mode, 0, 5_000L);
        Lab.Inbox inbox = new Lab.Inbox();
        consumer.registerMessageListener(inbox.listener());
        lab.start(consumer);
        send(lab, 4);
        for (MessageExt message : inbox.take(5)) {
            Lab.holds(message.getProperty("POP_CK") != null, "a message was pulled, not popped");
        }
    }

    private static DefaultMQPushConsumer byBroker(Lab lab) throws Exception {
        DefaultMQPushConsumer consumer = lab.consumer();
        Lab.call(consumer, "setClientRebalance", false);
        consumer.subscribe(lab.topic, "*");
        return consumer;
    }

    private static void heartbeatV2(Lab lab) throws Exception {
        Lab.Inbox inbox = lab.inbox(consumer -> {
            Lab.call(consumer, "setUseHeartbeatV2", true);
            consumer.subscribe(lab.topic, "*");
        });
        send(lab, 1);
        inbox.take(1);
        Thread.sleep(2_500); // two heartbeats: the second one has a fingerprint only
        send(lab, 1);
        inbox.take(1);
    }

    interface Accept {
        boolean test(MessageExt message);
    }

    private static void orderlyConsumer(Lab lab, Lab.Inbox inbox, Accept accept) throws Exception {
        DefaultMQPushConsumer consumer = lab.consumer();
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(inbox::put);
            context.setSuspendCurrentQueueTimeMillis(200);
            boolean accepted = accept.test(messages.get(0));
            return accepted ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        });
        lab.start(consumer);
    }

    static MessageQueue firstQueue(Lab lab, DefaultMQProducer producer) throws Exception {
        return producer.fetchPublishMessageQueues(lab.topic).get(0);
    }

    static void send(Lab lab, int count) throws Exception {
        DefaultMQProducer producer = lab.producer();
        for (int i = 0; i < count; i++) {
            Lab.stored(producer.send(lab.message("" + i)));
        }
    }
}
