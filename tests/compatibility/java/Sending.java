import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send; what was sent must reach a consumer. */
final class Sending {
    private static final long DELAY_MS = 2_000;
    private static final long EARLY_MS_MAX = 1_200; // timers count whole seconds

    private Sending() {}

    static void enrol(Map<String, Main.Check> features) {
        features.put("send-sync", Sending::sync);
        features.put("send-async", Sending::async);
        features.put("send-oneway", Sending::oneWay);
        features.put("send-batch", Sending::batch);
        features.put("send-batch-async", Sending::batchAsync);
        features.put("send-to-queue", Sending::toQueue);
        features.put("send-by-selector", Sending::bySelector);
        features.put("send-properties", Sending::properties);
        features.put("send-compressed", Sending::compressed);
        features.put("send-compressed-zstd", Sending::compressedZstd);
        features.put("send-3-mb", Sending::large);
        features.put("send-creates-topic", Sending::createsTopic);
        features.put("send-auto-batch", Sending::autoBatch);
        features.put("send-vip-channel", Sending::vipChannel);
        features.put("send-delay-level", Sending::delayLevel);
        features.put("send-delay-ms", lab -> timer(lab, "setDelayTimeMs", DELAY_MS));
        features.put("send-deliver-at", lab -> timer(lab, "setDeliverTimeMs", System.currentTimeMillis() + DELAY_MS));
        features.put("recall", Sending::recall);
    }

    private static void sync(Lab lab) throws Exception {
        SendResult result = Lab.stored(lab.producer().send(lab.message("sync")));
        MessageExt found = lab.inbox().takeOnly("sync");
        Lab.equal(result.getMsgId(), found.getMsgId(), "the id");
        Lab.equal(result.getQueueOffset(), found.getQueueOffset(), "the offset");
    }

    private static void async(Lab lab) throws Exception {
        Promise promise = new Promise();
        lab.producer().send(lab.message("async"), promise);
        promise.get();
        lab.inbox().takeOnly("async");
    }

    private static void oneWay(Lab lab) throws Exception {
        lab.producer().sendOneway(lab.message("one way"));
        lab.inbox().takeOnly("one way");
    }

    private static void batch(Lab lab) throws Exception {
        Lab.stored(lab.producer().send(three(lab)));
        lab.inbox().take(3);
    }

    private static void batchAsync(Lab lab) throws Exception {
        Promise promise = new Promise();
        lab.producer().send(three(lab), promise);
        promise.get();
        lab.inbox().take(3);
    }

    private static void toQueue(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(lab.topic);
        MessageQueue last = queues.get(queues.size() - 1);
        Lab.equal(last, Lab.stored(producer.send(lab.message("last"), last)).getMessageQueue(), "the queue");
        Lab.equal(last.getQueueId(), lab.inbox().takeOnly("last").getQueueId(), "the queue");
    }

    private static void bySelector(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        for (int i = 0; i < 3; i++) {
            Lab.stored(producer.send(lab.message("order " + i), new SelectMessageQueueByHash(), "order-7"));
        }
        List<MessageExt> found = lab.inbox().take(3);
        Lab.equal(1L, found.stream().map(MessageExt::getQueueId).distinct().count(), "the number of queues");
    }

    private static void properties(Lab lab) throws Exception {
        Message message = new Message(lab.topic, "paid", "key-1 key-2", "with properties".getBytes());
        message.putUserProperty("colour", "blau grün");
        Lab.stored(lab.producer().send(message));
        MessageExt found = lab.inbox().take(1).get(0);
        Lab.equal("paid", found.getTags(), "the tag");
        Lab.equal("key-1 key-2", found.getKeys(), "the keys");
        Lab.equal("blau grün", found.getUserProperty("colour"), "the property");
    }

    private static void compressed(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        producer.setCompressMsgBodyOverHowmuch(1_000);
        Lab.stored(producer.send(lab.message("x".repeat(20_000))));
        MessageExt found = lab.inbox().takeOnly("x".repeat(20_000));
        Lab.holds(found.getStoreSize() < 2_000, "the stored message is not compressed");
    }

    private static void compressedZstd(Lab lab) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(lab.group + "-producer");
        Lab.choose(producer, "setCompressType", "ZSTD");
        producer.setCompressMsgBodyOverHowmuch(1_000);
        Lab.stored(lab.started(producer).send(lab.message("z".repeat(20_000))));
        lab.inbox().takeOnly("z".repeat(20_000));
    }

    private static void large(Lab lab) throws Exception {
        byte[] body = new byte[3 << 20];
        new java.util.Random(1).nextBytes(body);
        Lab.stored(lab.producer().send(new Message(lab.topic, body)));
        Lab.equal(body.length, lab.inbox().take(1).get(0).getBody().length, "the size");
    }

    private static void createsTopic(Lab lab) throws Exception {
        String created = lab.topic + "-created";
        Lab.stored(lab.producer().send(new Message(created, "new".getBytes())));
        lab.inbox(consumer -> consumer.subscribe(created, "*")).takeOnly("new");
    }

    private static void autoBatch(Lab lab) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(lab.group + "-producer");
        Lab.call(producer, "setAutoBatch", true);
        lab.started(producer);
        List<Promise> promises = new ArrayList<>();
        for (Message message : three(lab)) {
            promises.add(new Promise());
            producer.send(message, promises.get(promises.size() - 1));
        }
        for (Promise promise : promises) {
            promise.get();
        }
        lab.inbox().take(3);
    }

    private static void vipChannel(Lab lab) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(lab.group + "-producer");
        producer.setVipChannelEnabled(true);
        Lab.stored(lab.started(producer).send(lab.message("by the other port")));
        lab.inbox().takeOnly("by the other port");
    }

    private static void delayLevel(Lab lab) throws Exception {
        Message message = lab.message("one second later");
        message.setDelayTimeLevel(1);
        Lab.stored(lab.producer().send(message));
        MessageExt found = lab.inbox().takeOnly("one second later");
        Lab.holds(found.getStoreTimestamp() - found.getBornTimestamp() >= 900, "delivered at once");
    }

    private static void timer(Lab lab, String setter, long value) throws Exception {
        Message message = lab.message("later");
        Lab.call(message, setter, value);
        Lab.stored(lab.producer().send(message));
        MessageExt found = lab.inbox().takeOnly("later");
        long waited = found.getStoreTimestamp() - found.getBornTimestamp();
        Lab.holds(waited >= DELAY_MS - EARLY_MS_MAX, "delivered at once");
    }

    /** A recalled message never arrives: one that is due later does, and nothing else. */
    private static void recall(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        Message recalled = lab.message("recalled");
        Lab.call(recalled, "setDelayTimeMs", 4_000L);
        Object handle = Lab.call(Lab.stored(producer.send(recalled)), "getRecallHandle");
        Lab.holds(handle != null, "the send returned no handle");
        Message kept = lab.message("kept");
        Lab.call(kept, "setDelayTimeMs", 7_000L);
        Lab.stored(producer.send(kept));
        Lab.call(producer, "recallMessage", lab.topic, handle);
        Lab.Inbox inbox = lab.inbox();
        inbox.takeOnly("kept");
        inbox.holdsNothing();
    }

    static List<Message> three(Lab lab) {
        return List.of(lab.message("one"), lab.message("two"), lab.message("three"));
    }

    /** The result of an asynchronous send. */
    static final class Promise implements SendCallback {
        private final CompletableFuture<SendResult> result = new CompletableFuture<>();

        @Override
        public void onSuccess(SendResult sent) {
            result.complete(sent);
        }

        @Override
        public void onException(Throwable problem) {
            result.completeExceptionally(problem);
        }

        SendResult get() throws Exception {
            return Lab.stored(result.get(Lab.WAIT_S_MAX, TimeUnit.SECONDS));
        }
    }
}
