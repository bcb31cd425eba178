package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// member is a push consumer and the queues of its last rebalance, by topic: the client has no method that returns them.
type member struct {
	client rocketmq.PushConsumer
	mutex  sync.Mutex
	queues map[string][]map[string]any
}

var consumers sync.Map // name → *member

// Messages with the keys in "refuse" are refused at their first delivery, with that delay level (0: the broker chooses
// it); "pause_ms" makes every call slow.
func startConsumer(request Request) (any, error) {
	started := &member{queues: map[string][]map[string]any{}}
	model := consumer.Clustering
	if request.Broadcasting {
		model = consumer.BroadCasting
	}
	tags := request.Tags
	if tags == "" {
		tags = "*"
	}
	options := []consumer.Option{
		consumer.WithNameServer([]string{request.Namesrv}),
		consumer.WithGroupName(request.Group),
		consumer.WithInstance(instance(request.Consumer)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(request.Orderly),
		consumer.WithStrategy(started.allocate),
	}
	if request.Trace {
		options = append(options, consumer.WithTrace(traceConfig(request.Namesrv)))
	}
	client, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	started.client = client
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	if request.SQL != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: request.SQL}
	}
	err = client.Subscribe(request.Topic, selector,
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return consume(ctx, request, messages), nil
		})
	if err != nil {
		return nil, err
	}
	consumers.Store(request.Consumer, started)
	return true, client.Start()
}

func stopConsumer(request Request) (any, error) {
	stopped, known := consumers.LoadAndDelete(request.Consumer)
	if !known {
		return nil, fmt.Errorf("there is no consumer %q", request.Consumer)
	}
	return true, stopped.(*member).client.Shutdown()
}

// assigned returns the queues of one topic that the consumer got in its last rebalance.
func assigned(request Request) (any, error) {
	found, known := consumers.Load(request.Consumer)
	if !known {
		return nil, fmt.Errorf("there is no consumer %q", request.Consumer)
	}
	asked := found.(*member)
	asked.mutex.Lock()
	defer asked.mutex.Unlock()
	return append([]map[string]any{}, asked.queues[request.Topic]...), nil
}

func (m *member) allocate(
	group string, clientID string, all []*primitive.MessageQueue, members []string,
) []*primitive.MessageQueue {
	mine := consumer.AllocateByAveragely(group, clientID, all, members)
	queues := []map[string]any{}
	for _, queue := range mine {
		queues = append(queues, map[string]any{"broker": queue.BrokerName, "queue": queue.QueueId})
	}
	if len(all) > 0 {
		m.mutex.Lock()
		m.queues[all[0].Topic] = queues
		m.mutex.Unlock()
	}
	return mine
}

func consume(ctx context.Context, request Request, messages []*primitive.MessageExt) consumer.ConsumeResult {
	result := consumer.ConsumeSuccess
	for _, message := range messages {
		level, refusable := request.Refuse[strings.TrimSpace(message.GetKeys())]
		refused := refusable && message.ReconsumeTimes == 0
		if refused {
			result = consumer.ConsumeRetryLater
			if concurrently, found := primitive.GetConcurrentlyCtx(ctx); found {
				concurrently.DelayLevelWhenNextConsume = level
			}
		}
		time.Sleep(time.Duration(request.PauseMs) * time.Millisecond)
		keepRequest(message)
		write(map[string]any{
			"event":           "consumed",
			"consumer":        request.Consumer,
			"refused":         refused,
			"topic":           message.Topic,
			"body":            string(message.Body),
			"tags":            message.GetTags(),
			"keys":            strings.TrimSpace(message.GetKeys()),
			"properties":      message.GetProperties(),
			"offset_id":       message.OffsetMsgId,
			"unique_id":       message.MsgId,
			"broker":          message.Queue.BrokerName,
			"queue":           message.Queue.QueueId,
			"offset":          message.QueueOffset,
			"reconsume_times": message.ReconsumeTimes,
			"stored_ms":       message.StoreTimestamp,
			"told_ms":         time.Now().UnixMilli(),
		})
	}
	return result
}
