import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Queries of the ordinary clients, traces and namespaces. */
@SuppressWarnings("deprecation")
final class Administration {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    private Administration() {}

    static void enrol(Map<String, Main.Check> features) {
        features.put("admin-create-topic", Administration::createTopic);
        features.put("admin-queues", Administration::queues);
        features.put("admin-offsets", Administration::offsets);
        features.put("admin-search-offset", Administration::searchOffset);
        features.put("admin-earliest-time", Administration::earliestTime);
        features.put("admin-view-by-offset-id", Administration::viewByOffsetId);
        features.put("admin-view-by-unique-key", Administration::viewByUniqueKey);
        features.put("admin-query-by-key", Administration::queryByKey);
        features.put("trace-send", Administration::traceSend);
        features.put("trace-consume", Administration::traceConsume);
        features.put("namespace", lab -> namespace(lab, "setNamespace"));
        features.put("namespace-v2", lab -> namespace(lab, "setNamespaceV2"));
    }

    private static void createTopic(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        String created = lab.topic + "-created";
        createTopic(producer, created, 3);
        int queues = Lab.until(() -> producer.fetchPublishMessageQueues(created).size(), "the route");
        Lab.equal(3, queues, "the number of queues");
    }

    /** Its parameters are not the same in 4.9 and 5.x. */
    static void createTopic(DefaultMQProducer producer, String topic, int queues) throws Exception {
        String like = producer.getCreateTopicKey();
        try {
            Lab.call(producer, "createTopic", like, topic, queues);
        } catch (NoSuchMethodException since5) {
            Lab.call(producer, "createTopic", like, topic, queues, Map.of());
        }
    }

    private static void queues(Lab lab) throws Exception {
        Lab.equal(4, lab.producer().fetchPublishMessageQueues(lab.topic).size(), "the number of queues to write");
        int readable = Pulling.puller(lab).fetchSubscribeMessageQueues(lab.topic).size();
        Lab.equal(4, readable, "the number of queues to read");
    }

    private static void offsets(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = Consuming.firstQueue(lab, producer);
        Lab.stored(producer.send(lab.message("one"), queue));
        Lab.equal(1L, Lab.until(() -> producer.maxOffset(queue) == 1 ? 1L : null, "the next offset"), "the next offset");
        Lab.equal(0L, producer.minOffset(queue), "the first offset");
    }

    private static void searchOffset(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = Consuming.firstQueue(lab, producer);
        Lab.stored(producer.send(lab.message("one"), queue));
        Thread.sleep(500);
        long now = System.currentTimeMillis(); // 4.9 finds the nearest message, 5.x the next one: here they are the same
        Thread.sleep(20);
        Lab.stored(producer.send(lab.message("two"), queue));
        Lab.until(() -> producer.searchOffset(queue, now) == 1 ? true : null, "the offset at a time is 1");
    }

    private static void earliestTime(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = Consuming.firstQueue(lab, producer);
        Lab.stored(producer.send(lab.message("one"), queue));
        Lab.until(() -> {
            long earliest = producer.earliestMsgStoreTime(queue);
            return Math.abs(System.currentTimeMillis() - earliest) < 60_000 ? true : null;
        }, "the time of the oldest message");
    }

    private static void viewByOffsetId(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        SendResult result = Lab.stored(producer.send(lab.message("viewed")));
        Lab.equal("viewed", Lab.text(producer.viewMessage(lab.topic, result.getOffsetMsgId())), "the message");
    }

    private static void viewByUniqueKey(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        SendResult result = Lab.stored(producer.send(lab.message("viewed")));
        Message found = Lab.until(() -> producer.viewMessage(lab.topic, result.getMsgId()), "the message");
        Lab.equal("viewed", Lab.text(found), "the message");
    }

    private static void queryByKey(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        Lab.stored(producer.send(new Message(lab.topic, "", "order-7", "queried".getBytes())));
        long now = System.currentTimeMillis();
        QueryResult found = Lab.until(
                () -> producer.queryMessage(lab.topic, "order-7", 10, now - 60_000, now + 60_000), "the message");
        Lab.equal("queried", Lab.text(found.getMessageList().get(0)), "the message");
    }

    private static void traceSend(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.started(new DefaultMQProducer(lab.group + "-producer", null, true, null));
        String id = Lab.stored(producer.send(lab.message("traced"))).getMsgId();
        traced(lab, "Pub", id);
    }

    private static void traceConsume(Lab lab) throws Exception {
        Lab.Inbox inbox = new Lab.Inbox();
        DefaultMQPushConsumer consumer = lab.ready(
                new DefaultMQPushConsumer(lab.group, null, new AllocateMessageQueueAveragely(), true, null));
        consumer.subscribe(lab.topic, "*");
        consumer.registerMessageListener(inbox.listener());
        lab.start(consumer);
        Consuming.send(lab, 1);
        String id = inbox.take(1).get(0).getMsgId();
        traced(lab, "SubBefore", id);
        traced(lab, "SubAfter", id);
    }

    /** Waits for a trace of this kind with the message's id among its keys. */
    private static void traced(Lab lab, String kind, String id) throws Exception {
        DefaultMQPullConsumer puller = lab.quick(new DefaultMQPullConsumer(lab.group + "-trace-" + kind));
        puller.start();
        lab.closeAtEnd(puller::shutdown);
        Lab.until(() -> {
            for (MessageQueue queue : puller.fetchSubscribeMessageQueues(TRACE_TOPIC)) {
                if (hasTrace(puller, queue, kind, id)) {
                    return true;
                }
            }
            return null;
        }, "a trace " + kind + " in " + TRACE_TOPIC);
    }

    private static boolean hasTrace(DefaultMQPullConsumer puller, MessageQueue queue, String kind, String id)
            throws Exception {
        PullResult result = puller.pull(queue, "*", 0, 32);
        while (result.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt trace : result.getMsgFoundList()) {
                if (List.of(String.valueOf(trace.getKeys()).split(" ")).contains(id) && Lab.text(trace).contains(kind)) {
                    return true;
                }
            }
            result = puller.pull(queue, "*", result.getNextBeginOffset(), 32);
        }
        return false;
    }

    private static void namespace(Lab lab, String setter) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(lab.group + "-producer");
        Lab.call(producer, setter, "tenant");
        Lab.stored(lab.started(producer).send(lab.message("of a tenant")));
        Lab.Inbox inbox = lab.inbox(consumer -> {
            Lab.call(consumer, setter, "tenant");
            consumer.subscribe(lab.topic, "*");
        });
        Lab.equal(lab.topic, inbox.takeOnly("of a tenant").getTopic(), "the topic without its namespace");
    }
}
