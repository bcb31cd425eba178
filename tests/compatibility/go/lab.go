package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	waitMax     = 50 * time.Second
	sendMax     = 10 * time.Second
	nothingWait = 1500 * time.Millisecond
)

// lab is what one feature works with. A check panics with the reason when it fails.
type lab struct {
	namesrv, topic, group string
	mutex                 sync.Mutex
	closings              []func() error
}

var instances atomic.Int64

// instance returns a new name, so that each producer and each consumer is a separate client.
func instance() string {
	return fmt.Sprintf("%d-%d", os.Getpid(), instances.Add(1))
}

func (l *lab) atEnd(closing func() error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closings = append(l.closings, closing)
}

func (l *lab) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, closing := range l.closings {
		go closing() // a client that cannot be closed must not hold the others
	}
}

func (l *lab) producerOptions(more ...producer.Option) []producer.Option {
	return append([]producer.Option{
		producer.WithNameServer([]string{l.namesrv}),
		producer.WithGroupName(l.group + "-producer"),
		producer.WithInstanceName(instance()),
		producer.WithSendMsgTimeout(sendMax),
	}, more...)
}

func (l *lab) producer(more ...producer.Option) rocketmq.Producer {
	client := must(rocketmq.NewProducer(l.producerOptions(more...)...))
	check(client.Start())
	l.atEnd(client.Shutdown)
	return client
}

type inbox chan *primitive.MessageExt

func (in inbox) take(count int) []*primitive.MessageExt {
	found := []*primitive.MessageExt{}
	end := time.After(waitMax)
	for len(found) < count {
		select {
		case next := <-in:
			found = append(found, next)
		case <-end:
			panic(fmt.Sprintf("%d of %d messages came in %s", len(found), count, waitMax))
		}
	}
	return found
}

func (in inbox) takeOnly(body string) *primitive.MessageExt {
	found := in.take(1)[0]
	equal(body, string(found.Body), "the next message")
	return found
}

func (in inbox) holdsNothing() {
	select {
	case next := <-in:
		panic("a message too many: " + string(next.Body))
	case <-time.After(nothingWait):
	}
}

var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func accepting(in inbox) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			in <- message
		}
		return consumer.ConsumeSuccess, nil
	}
}

// consumer starts a push consumer of the topic; it begins with the oldest message.
func (l *lab) consumer(topic string, selector consumer.MessageSelector, listen listener, more ...consumer.Option) rocketmq.PushConsumer {
	client := must(rocketmq.NewPushConsumer(l.consumerOptions(more...)...))
	check(client.Subscribe(topic, selector, listen))
	check(client.Start())
	l.atEnd(client.Shutdown)
	return client
}

func (l *lab) consumerOptions(more ...consumer.Option) []consumer.Option {
	return append([]consumer.Option{
		consumer.WithNameServer([]string{l.namesrv}),
		consumer.WithGroupName(l.group),
		consumer.WithInstance(instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
}

func (l *lab) inbox(more ...consumer.Option) inbox {
	in := make(inbox, 1000)
	l.consumer(l.topic, everything, accepting(in), more...)
	return in
}

func (l *lab) message(body string) *primitive.Message {
	return primitive.NewMessage(l.topic, []byte(body))
}

func (l *lab) send(count int) {
	client := l.producer()
	for i := range count {
		stored(client.SendSync(context.Background(), l.message(fmt.Sprint(i))))
	}
}

func stored(result *primitive.SendResult, err error) *primitive.SendResult {
	check(err)
	equal(primitive.SendOK, result.Status, "the status of the send")
	return result
}

func check(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func equal[T comparable](expected, found T, what string) {
	if expected != found {
		panic(fmt.Sprintf("%s was %v, expected %v", what, found, expected))
	}
}

func holds(condition bool, text string) {
	if !condition {
		panic(text)
	}
}

func until(condition func() bool, what string) {
	for end := time.Now().Add(waitMax); !condition(); time.Sleep(100 * time.Millisecond) {
		holds(time.Now().Before(end), what+": not within "+waitMax.String())
	}
}
