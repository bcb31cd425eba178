package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const traceTopic = "RMQ_SYS_TRACE_TOPIC"

var consuming = []feature{
	{"consume-concurrently", func(l *lab) {
		l.send(40)
		l.inbox().take(40)
	}},
	{"consume-orderly", func(l *lab) {
		l.oneQueue("0", "1", "2", "3", "4", "5", "6", "7")
		for i, message := range l.inbox(consumer.WithConsumerOrder(true)).take(8) {
			equal(fmt.Sprint(i), string(message.Body), "a message")
		}
	}},
	{"consume-broadcasting", func(l *lab) {
		model := consumer.WithConsumerModel(consumer.BroadCasting)
		one, two := l.inbox(model), l.inbox(model)
		l.send(8)
		one.take(8)
		two.take(8)
	}},
	{"consume-tags", func(l *lab) {
		client := l.producer()
		for _, tag := range []string{"open", "paid", "lost", "sent"} {
			stored(client.SendSync(context.Background(), l.message(tag).WithTag(tag)))
		}
		in := make(inbox, 10)
		l.consumer(l.topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "paid || sent"}, accepting(in))
		found := in.take(2)
		equal("paid sent", joined(found), "the tags")
	}},
	{"consume-sql", func(l *lab) {
		l.priced()
		in := make(inbox, 10)
		l.consumer(l.topic, consumer.MessageSelector{Type: consumer.SQL92, Expression: "price > 20"}, accepting(in))
		equal("50 70", joined(in.take(2)), "the messages")
	}},
	{"consume-batches", func(l *lab) {
		l.oneQueue("one", "two", "three")
		in, largest := make(inbox, 10), atomic.Int64{}
		l.consumer(l.topic, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			largest.Store(max(largest.Load(), int64(len(messages))))
			return accepting(in)(nil, messages...)
		}, consumer.WithConsumeMessageBatchMaxSize(3))
		in.take(3)
		holds(largest.Load() > 1, "the listener got one message at a time")
	}},
	{"consume-retry", func(l *lab) {
		in := make(inbox, 10)
		l.consumer(l.topic, everything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				in <- message
			}
			if concurrently, known := primitive.GetConcurrentlyCtx(ctx); known {
				concurrently.DelayLevelWhenNextConsume = 1
			}
			if messages[0].ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		})
		l.send(1)
		found := in.take(2)
		equal(1, int(found[1].ReconsumeTimes), "the number of retries")
		equal(l.topic, found[1].Topic, "the topic of the retried message")
	}},
	{"consume-dead-letter", func(l *lab) {
		l.consumer(l.topic, everything, func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return consumer.ConsumeRetryLater, nil
		}, consumer.WithMaxReconsumeTimes(0))
		l.send(1)
		dead := "%DLQ%" + l.group
		l.waitRouted(dead)
		in := make(inbox, 10)
		l.consumer(dead, everything, accepting(in), consumer.WithGroupName(l.group+"-dead"))
		in.takeOnly("0")
	}},
	{"consume-orderly-suspend", func(l *lab) {
		l.oneQueue("first", "second")
		in, calls := make(inbox, 10), atomic.Int64{}
		l.consumer(l.topic, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			in <- messages[0]
			if calls.Add(1) == 1 {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(200*time.Millisecond))
		in.takeOnly("first")
		in.takeOnly("first")
		in.takeOnly("second")
	}},
	{"consume-suspend-resume", func(l *lab) {
		in := make(inbox, 10)
		client := l.consumer(l.topic, everything, accepting(in))
		l.send(1)
		in.take(1)
		client.Suspend()
		client.Resume()
		l.send(1)
		in.take(1)
	}},
	{"consume-from-first", from(consumer.ConsumeFromFirstOffset)},
	{"consume-from-last", from(consumer.ConsumeFromLastOffset)},
	{"consume-from-timestamp", from(consumer.ConsumeFromTimestamp)},
	{"consume-committed", func(l *lab) {
		l.oneQueue("before")
		in := make(inbox, 10)
		client := must(rocketmq.NewPushConsumer(l.consumerOptions()...))
		check(client.Subscribe(l.topic, everything, accepting(in)))
		check(client.Start())
		in.takeOnly("before")
		time.Sleep(200 * time.Millisecond) // the client marks a message as consumed after the listener has returned
		check(client.Shutdown())
		l.oneQueue("after")
		l.inbox().takeOnly("after")
	}},
	{"consume-shared", func(l *lab) {
		one, two := l.inbox(), l.inbox()
		client := l.producer()
		seen := map[inbox]bool{}
		until(func() bool {
			stored(client.SendSync(context.Background(), l.message("shared")))
			for _, each := range []inbox{one, two} {
				select {
				case <-each:
					seen[each] = true
				default:
				}
			}
			return len(seen) == 2
		}, "both members get messages")
	}},
	{"pull", func(l *lab) {
		queue := l.oneQueue("0", "1", "2")
		result := must(l.puller(everything).PullFrom(context.Background(), queue, 1, 10))
		equal(primitive.PullFound, result.Status, "the status")
		equal(2, len(result.GetMessageExts()), "the number of messages")
		equal(int64(3), result.NextBeginOffset, "the next offset")
	}},
	{"pull-sql", func(l *lab) {
		queue := l.priced()
		dear := consumer.MessageSelector{Type: consumer.SQL92, Expression: "price > 20"}
		result := must(l.puller(dear).PullFrom(context.Background(), queue, 0, 10))
		equal(2, len(result.GetMessageExts()), "the number of messages")
	}},
	{"pull-commit", func(l *lab) {
		queue := l.oneQueue("0", "1", "2")
		client := l.puller(everything)
		check(client.UpdateOffset(queue, 2))
		check(client.PersistOffset(context.Background(), l.topic))
		offset := must(client.CurrentOffset(queue))
		equal(int64(2), offset, "the committed offset")
	}},
	{"lite-subscribe", func(l *lab) {
		l.send(8)
		client := l.puller(everything)
		found := 0
		until(func() bool {
			request, err := client.Poll(context.Background(), time.Second)
			if err == nil {
				found += len(request.GetMsgList())
				client.ACK(context.Background(), request, consumer.ConsumeSuccess)
			}
			return found >= 8
		}, "polled 8 messages")
	}},
}

var administration = []feature{
	{"admin-create-topic", func(l *lab) {
		created := l.topic + "-created"
		check(l.admin().CreateTopic(context.Background(), admin.WithTopicCreate(created), admin.WithBrokerAddrCreate(l.broker())))
		l.waitRouted(created)
	}},
	{"admin-delete-topic", func(l *lab) {
		broker := l.broker()
		check(l.admin().DeleteTopic(context.Background(), admin.WithTopicDelete(l.topic), admin.WithBrokerAddrDelete(broker),
			admin.WithNameSrvAddr([]string{l.namesrv})))
		topics := must(l.admin().FetchAllTopicList(context.Background()))
		for _, topic := range topics.TopicList {
			holds(topic != l.topic, "the topic is still there")
		}
	}},
	{"admin-topics", func(l *lab) {
		topics := must(l.admin().FetchAllTopicList(context.Background()))
		holds(strings.Contains(strings.Join(topics.TopicList, " ")+" ", l.topic+" "), "the topic is not in the list")
	}},
	{"admin-groups", func(l *lab) {
		groups := must(l.admin().GetAllSubscriptionGroup(context.Background(), l.broker(), sendMax))
		holds(len(groups.SubscriptionGroupTable) > 0, "no groups")
	}},
	{"admin-queues", func(l *lab) {
		equal(4, len(must(l.admin().FetchPublishMessageQueues(context.Background(), l.topic))), "the number of queues")
	}},
	{"trace-send", func(l *lab) {
		client := l.producer(producer.WithTrace(l.traced()))
		id := stored(client.SendSync(context.Background(), l.message("traced"))).MsgID
		l.waitTraced("Pub", id)
	}},
	{"trace-consume", func(l *lab) {
		in := l.inbox(consumer.WithTrace(l.traced()))
		l.send(1)
		l.waitTraced("SubAfter", in.take(1)[0].MsgId)
	}},
	{"namespace", func(l *lab) {
		stored(l.producer(producer.WithNamespace("tenant")).SendSync(context.Background(), l.message("of a tenant")))
		l.inbox(consumer.WithNamespace("tenant")).takeOnly("of a tenant")
	}},
}

func from(where consumer.ConsumeFromWhere) func(*lab) {
	return func(l *lab) {
		l.send(1)
		minute := time.Now().Add(-time.Minute).Format("20060102150405")
		l.inbox(consumer.WithConsumeFromWhere(where), consumer.WithConsumeTimestamp(minute)).takeOnly("0")
	}
}

func joined(messages []*primitive.MessageExt) string {
	bodies := map[string]bool{}
	for _, message := range messages {
		bodies[string(message.Body)] = true
	}
	found := []string{}
	for _, body := range []string{"open", "paid", "lost", "sent", "5", "50", "7", "70"} {
		if bodies[body] {
			found = append(found, body)
		}
	}
	return strings.Join(found, " ")
}

// oneQueue sends all to the first queue.
func (l *lab) oneQueue(bodies ...string) *primitive.MessageQueue {
	queue := must(l.admin().FetchPublishMessageQueues(context.Background(), l.topic))[0]
	client := l.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for _, body := range bodies {
		message := l.message(body)
		message.Queue = queue
		stored(client.SendSync(context.Background(), message))
	}
	return queue
}

func (l *lab) priced() *primitive.MessageQueue {
	queue := must(l.admin().FetchPublishMessageQueues(context.Background(), l.topic))[0]
	client := l.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	for _, price := range []string{"5", "50", "7", "70"} {
		message := l.message(price)
		message.WithProperty("price", price)
		message.Queue = queue
		stored(client.SendSync(context.Background(), message))
	}
	return queue
}

func (l *lab) puller(selector consumer.MessageSelector) rocketmq.PullConsumer {
	client := must(rocketmq.NewPullConsumer(l.consumerOptions()...))
	check(client.Subscribe(l.topic, selector))
	check(client.Start())
	l.atEnd(client.Shutdown)
	return client
}

func (l *lab) admin() admin.Admin {
	client := must(admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{l.namesrv}))))
	l.atEnd(client.Close)
	return client
}

// broker returns the address of the broker, which is in the offset id of a message.
func (l *lab) broker() string {
	result := stored(l.producer().SendSync(context.Background(), l.message("where")))
	id := must(primitive.UnmarshalMsgID([]byte(result.OffsetMsgID)))
	return fmt.Sprintf("%s:%d", id.Addr, id.Port)
}

func (l *lab) waitRouted(topic string) {
	until(func() bool {
		queues, err := l.admin().FetchPublishMessageQueues(context.Background(), topic)
		return err == nil && len(queues) > 0
	}, "the route of "+topic)
}

func (l *lab) traced() *primitive.TraceConfig {
	return &primitive.TraceConfig{
		Access:   primitive.Local,
		Resolver: primitive.NewPassthroughResolver([]string{l.namesrv}),
	}
}

// waitTraced waits for a trace of this kind with the message's id.
func (l *lab) waitTraced(kind, id string) {
	in := make(inbox, 10_000)
	l.consumer(traceTopic, everything, accepting(in), consumer.WithGroupName(l.group+"-trace"))
	end := time.After(waitMax)
	for {
		select {
		case trace := <-in:
			if strings.Contains(trace.GetKeys(), id) && strings.Contains(string(trace.Body), kind) {
				return
			}
		case <-end:
			panic("no trace " + kind + " in " + traceTopic)
		}
	}
}
