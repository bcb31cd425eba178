import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MQPullConsumerScheduleService;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages: the pull consumer, and the lite pull consumer. */
@SuppressWarnings("deprecation")
final class Pulling {
    private Pulling() {}

    static void enrol(Map<String, Main.Check> features) {
        features.put("pull", Pulling::pull);
        features.put("pull-held", Pulling::held);
        features.put("pull-sql", Pulling::pullSql);
        features.put("pull-commit", Pulling::pullCommit);
        features.put("pull-schedule", Pulling::schedule);
        features.put("lite-subscribe", Pulling::subscribe);
        features.put("lite-sql", Pulling::liteSql);
        features.put("lite-assign", Pulling::assign);
        features.put("lite-seek", Pulling::seek);
        features.put("lite-seek-begin-end", Pulling::seekBeginEnd);
        features.put("lite-offset-for-timestamp", Pulling::offsetForTimestamp);
        features.put("lite-pause-resume", Pulling::pauseResume);
        features.put("lite-commit", Pulling::commit);
        features.put("lite-queue-changes", Pulling::queueChanges);
    }

    private static void pull(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 3);
        PullResult result = puller(lab).pull(queue, "*", 1, 10);
        Lab.equal(PullStatus.FOUND, result.getPullStatus(), "the status");
        Lab.equal(2, result.getMsgFoundList().size(), "the number of messages");
        Lab.equal(3L, result.getNextBeginOffset(), "the next offset");
    }

    private static void held(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = filled(lab, 1);
        DefaultMQPullConsumer puller = puller(lab);
        CompletableFuture<PullResult> found = CompletableFuture.supplyAsync(() -> {
            try {
                return puller.pullBlockIfNotFound(queue, "*", 1, 10);
            } catch (Exception failed) {
                throw new IllegalStateException(failed);
            }
        });
        Thread.sleep(1_000);
        Lab.holds(!found.isDone(), "the pull was not held");
        Lab.stored(producer.send(lab.message("late"), queue));
        Lab.equal(PullStatus.FOUND, found.get(Lab.WAIT_S_MAX, TimeUnit.SECONDS).getPullStatus(), "the status");
    }

    private static void pullSql(Lab lab) throws Exception {
        MessageQueue queue = priced(lab);
        DefaultMQPullConsumer puller = puller(lab);
        MessageSelector dear = MessageSelector.bySql("price > 20");
        PullResult result = Lab.until(() -> puller.pull(queue, dear, 0, 10), "the first heartbeat"); // before it: refused
        Lab.equal(2, result.getMsgFoundList().size(), "the number of messages");
    }

    private static void pullCommit(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 3);
        DefaultMQPullConsumer puller = puller(lab);
        Lab.until(() -> { // the group exists since the first heartbeat, and commits of one that does not are dropped
            puller.updateConsumeOffset(queue, 2);
            puller.getOffsetStore().persistAll(Set.of(queue));
            return puller.fetchConsumeOffset(queue, true) == 2 ? true : null;
        }, "the committed offset is 2");
    }

    private static void schedule(Lab lab) throws Exception {
        filled(lab, 1);
        CompletableFuture<String> found = new CompletableFuture<>();
        MQPullConsumerScheduleService service = new MQPullConsumerScheduleService(lab.group);
        lab.quick(service.getDefaultMQPullConsumer());
        service.registerPullTaskCallback(lab.topic, (queue, context) -> {
            try {
                PullResult result = ((DefaultMQPullConsumer) context.getPullConsumer()).pull(queue, "*", 0, 10);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    found.complete(Lab.text(result.getMsgFoundList().get(0)));
                }
                context.setPullNextDelayTimeMillis(200);
            } catch (Exception failed) {
                found.completeExceptionally(failed);
            }
        });
        service.start();
        lab.closeAtEnd(service::shutdown);
        Lab.equal("0", found.get(Lab.WAIT_S_MAX, TimeUnit.SECONDS), "the message");
    }

    private static void subscribe(Lab lab) throws Exception {
        Consuming.send(lab, 8);
        DefaultLitePullConsumer lite = lite(lab);
        lite.subscribe(lab.topic, "*");
        lite.start();
        take(lite, 8);
    }

    private static void liteSql(Lab lab) throws Exception {
        priced(lab);
        DefaultLitePullConsumer lite = lite(lab);
        lite.subscribe(lab.topic, MessageSelector.bySql("price IS NOT NULL AND price > 20"));
        lite.start();
        Lab.equal("50", Lab.text(take(lite, 2).get(0)), "the first message");
    }

    private static void assign(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 3);
        take(assigned(lab, queue), 3);
    }

    private static void seek(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 5);
        DefaultLitePullConsumer lite = assigned(lab, queue);
        take(lite, 5);
        lite.seek(queue, 3);
        Lab.equal("3", Lab.text(take(lite, 2).get(0)), "the message at the offset");
    }

    private static void seekBeginEnd(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 3);
        DefaultLitePullConsumer lite = assigned(lab, queue);
        take(lite, 3);
        lite.seekToBegin(queue);
        Lab.equal("0", Lab.text(take(lite, 3).get(0)), "the first message");
        lite.seekToEnd(queue);
        Lab.stored(lab.producer().send(lab.message("new"), queue));
        Lab.equal("new", Lab.text(take(lite, 1).get(0)), "the message after the end");
    }

    private static void offsetForTimestamp(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 2);
        DefaultLitePullConsumer lite = assigned(lab, queue);
        DefaultMQProducer producer = lab.producer();
        Lab.stored(producer.send(lab.message("before"), queue));
        Thread.sleep(500);
        long now = System.currentTimeMillis(); // 4.9 finds the nearest message, 5.x the next one: here they are the same
        Thread.sleep(20);
        Lab.stored(producer.send(lab.message("later"), queue));
        Lab.until(() -> lite.offsetForTimestamp(queue, now) == 3 ? true : null, "the offset at a time is 3");
    }

    private static void pauseResume(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 1);
        DefaultLitePullConsumer lite = assigned(lab, queue);
        take(lite, 1);
        lite.pause(List.of(queue));
        Lab.stored(lab.producer().send(lab.message("paused"), queue));
        Lab.equal(0, lite.poll(1_500).size(), "the number of messages of a paused queue");
        lite.resume(List.of(queue));
        take(lite, 1);
    }

    private static void commit(Lab lab) throws Exception {
        MessageQueue queue = filled(lab, 3);
        DefaultLitePullConsumer lite = assigned(lab, queue);
        lite.setAutoCommit(false);
        take(lite, 3);
        lite.commitSync();
        Lab.until(() -> Long.valueOf(3).equals(lite.committed(queue)) ? true : null, "the committed offset is 3");
    }

    private static void queueChanges(Lab lab) throws Exception {
        DefaultLitePullConsumer lite = lite(lab);
        lite.setTopicMetadataCheckIntervalMillis(500);
        lite.start();
        CompletableFuture<Integer> changed = new CompletableFuture<>();
        Collection<MessageQueue> queues = lite.fetchMessageQueues(lab.topic);
        lite.assign(new ArrayList<>(queues));
        lite.registerTopicMessageQueueChangeListener(lab.topic, (topic, now) -> changed.complete(now.size()));
        Administration.createTopic(lab.producer(), lab.topic, queues.size() + 4);
        Lab.equal(queues.size() + 4, changed.get(Lab.WAIT_S_MAX, TimeUnit.SECONDS), "the number of queues");
    }

    static DefaultMQPullConsumer puller(Lab lab) throws Exception {
        DefaultMQPullConsumer consumer = lab.quick(new DefaultMQPullConsumer(lab.group));
        consumer.start();
        lab.closeAtEnd(consumer::shutdown);
        return consumer;
    }

    private static DefaultLitePullConsumer lite(Lab lab) {
        DefaultLitePullConsumer lite = lab.quick(new DefaultLitePullConsumer(lab.group));
        lite.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        lab.closeAtEnd(lite::shutdown);
        return lite;
    }

    private static DefaultLitePullConsumer assigned(Lab lab, MessageQueue queue) throws Exception {
        DefaultLitePullConsumer lite = lite(lab);
        lite.start();
        lite.assign(List.of(queue));
        return lite;
    }

    private static List<MessageExt> take(DefaultLitePullConsumer lite, int count) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        Lab.until(() -> {
            found.addAll(lite.poll(1_000));
            return found.size() >= count ? true : null;
        }, "polled " + count + " messages");
        return found;
    }

    /** Messages "0", "1", … in one queue. */
    private static MessageQueue filled(Lab lab, int count) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = Consuming.firstQueue(lab, producer);
        for (int i = 0; i < count; i++) {
            Lab.stored(producer.send(lab.message("" + i), queue));
        }
        return queue;
    }

    private static MessageQueue priced(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        MessageQueue queue = Consuming.firstQueue(lab, producer);
        for (int price : new int[] {5, 50, 7, 70}) {
            Message message = lab.message("" + price);
            message.putUserProperty("price", "" + price);
            Lab.stored(producer.send(message, queue));
        }
        return queue;
    }
}
