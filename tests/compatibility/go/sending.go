package main

import (
	"context"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var sending = []feature{
	{"send-sync", func(l *lab) {
		result := stored(l.producer().SendSync(context.Background(), l.message("sync")))
		found := l.inbox().takeOnly("sync")
		equal(result.MsgID, found.MsgId, "the id")
		equal(result.QueueOffset, found.QueueOffset, "the offset")
	}},
	{"send-async", func(l *lab) {
		done := make(chan error, 1)
		check(l.producer().SendAsync(context.Background(), func(_ context.Context, _ *primitive.SendResult, err error) {
			done <- err
		}, l.message("async")))
		check(<-done)
		l.inbox().takeOnly("async")
	}},
	{"send-oneway", func(l *lab) {
		check(l.producer().SendOneWay(context.Background(), l.message("one way")))
		l.inbox().takeOnly("one way")
	}},
	{"send-batch", func(l *lab) {
		stored(l.producer().SendSync(context.Background(), l.message("one"), l.message("two"), l.message("three")))
		l.inbox().take(3)
	}},
	{"send-to-queue", func(l *lab) {
		client := l.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
		broker := stored(l.producer().SendSync(context.Background(), l.message("where"))).MessageQueue.BrokerName
		message := l.message("last")
		message.Queue = &primitive.MessageQueue{Topic: l.topic, BrokerName: broker, QueueId: 3}
		equal(3, stored(client.SendSync(context.Background(), message)).MessageQueue.QueueId, "the queue")
	}},
	{"send-by-selector", func(l *lab) {
		client := l.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
		queues := map[int]bool{}
		for range 3 {
			message := l.message("order").WithShardingKey("order-7")
			queues[stored(client.SendSync(context.Background(), message)).MessageQueue.QueueId] = true
		}
		equal(1, len(queues), "the number of queues")
		l.inbox().take(3)
	}},
	{"send-properties", func(l *lab) {
		message := l.message("with properties").WithTag("paid").WithKeys([]string{"key-1", "key-2"})
		message.WithProperty("colour", "blau grün")
		stored(l.producer().SendSync(context.Background(), message))
		found := l.inbox().take(1)[0]
		equal("paid", found.GetTags(), "the tag")
		equal("key-1 key-2", strings.TrimSpace(found.GetKeys()), "the keys")
		equal("blau grün", found.GetProperty("colour"), "the property")
	}},
	{"send-compressed", func(l *lab) {
		client := l.producer(producer.WithCompressMsgBodyOverHowmuch(1000))
		body := strings.Repeat("x", 20_000)
		stored(client.SendSync(context.Background(), l.message(body)))
		found := l.inbox().take(1)[0]
		equal(len(body), len(found.Body), "the size")
		holds(found.StoreSize < 2000, "the stored message is not compressed")
	}},
	{"send-creates-topic", func(l *lab) {
		created := l.topic + "-created"
		stored(l.producer().SendSync(context.Background(), primitive.NewMessage(created, []byte("new"))))
		in := make(inbox, 10)
		l.consumer(created, everything, accepting(in))
		in.takeOnly("new")
	}},
	{"send-delay-level", func(l *lab) {
		stored(l.producer().SendSync(context.Background(), l.message("one second later").WithDelayTimeLevel(1)))
		found := l.inbox().takeOnly("one second later")
		holds(found.StoreTimestamp-found.BornTimestamp >= 900, "delivered at once")
	}},
}

var transactions = []feature{
	{"transaction-commit", func(l *lab) {
		client, _ := l.transactional(primitive.CommitMessageState, primitive.CommitMessageState)
		transacted(client.SendMessageInTransaction(context.Background(), l.message("committed")))
		l.inbox().takeOnly("committed")
	}},
	{"transaction-rollback", func(l *lab) {
		client, _ := l.transactional(primitive.RollbackMessageState, primitive.RollbackMessageState)
		transacted(client.SendMessageInTransaction(context.Background(), l.message("rolled back")))
		l.send(1)
		in := l.inbox()
		in.takeOnly("0")
		in.holdsNothing()
	}},
	{"transaction-check-commit", func(l *lab) {
		client, asked := l.transactional(primitive.UnknowState, primitive.CommitMessageState)
		transacted(client.SendMessageInTransaction(context.Background(), l.message("checked")))
		asked.take(1)
		l.inbox().takeOnly("checked")
	}},
	{"transaction-check-rollback", func(l *lab) {
		client, asked := l.transactional(primitive.UnknowState, primitive.RollbackMessageState)
		transacted(client.SendMessageInTransaction(context.Background(), l.message("checked")))
		asked.take(1)
		l.send(1)
		in := l.inbox()
		in.takeOnly("0")
		in.holdsNothing()
	}},
	{"request-sync", func(l *lab) {
		l.replier()
		reply := must(l.producer().Request(context.Background(), sendMax, l.message("question")))
		equal("answer to question", string(reply.Body), "the reply")
	}},
	{"request-async", func(l *lab) {
		l.replier()
		replies := make(chan string, 1)
		check(l.producer().RequestAsync(context.Background(), sendMax, func(_ context.Context, reply *primitive.Message, err error) {
			if err != nil {
				replies <- err.Error()
				return
			}
			replies <- string(reply.Body)
		}, l.message("question")))
		select {
		case reply := <-replies:
			equal("answer to question", reply, "the reply")
		case <-time.After(waitMax):
			panic("no reply")
		}
	}},
}

type ending struct {
	first, second primitive.LocalTransactionState
	asked         inbox
}

func (e *ending) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	return e.first
}

func (e *ending) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	e.asked <- message
	return e.second
}

// transactional starts a producer whose transactions end with the first state, and checks with the second.
func (l *lab) transactional(first, second primitive.LocalTransactionState) (rocketmq.TransactionProducer, inbox) {
	end := &ending{first, second, make(inbox, 10)}
	client := must(rocketmq.NewTransactionProducer(end, l.producerOptions()...))
	check(client.Start())
	l.atEnd(client.Shutdown)
	return client, end.asked
}

func transacted(result *primitive.TransactionSendResult, err error) {
	check(err)
	equal(primitive.SendOK, result.Status, "the status of the send")
}

func (l *lab) replier() {
	replies := l.producer(producer.WithGroupName(l.group + "-replies"))
	l.consumer(l.topic, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		time.Sleep(time.Second) // this client registers at a broker only after it has sent to it
		for _, message := range messages {
			reply, err := consumer.CreateReplyMessage(message, nil)
			if err == nil {
				reply.Body = []byte("answer to " + string(message.Body)) // it takes the body for properties
				_, err = replies.SendSync(context.Background(), reply)
			}
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	})
}
