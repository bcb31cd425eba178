// Sends one message and consumes it, with the Go client (go get github.com/apache/rocketmq-client-go/v2).
//
//	make -C examples/go run                 // or: make run NAMESRV=HOST:PORT
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func main() {
	namesrv := []string{os.Args[1]}

	p, err := rocketmq.NewProducer(producer.WithNameServer(namesrv), producer.WithGroupName("hello-go-writers"))
	must(err)
	must(p.Start())
	_, err = p.SendSync(context.Background(), primitive.NewMessage("hello-go", []byte("from Go")))
	must(err)
	must(p.Shutdown())

	heard := make(chan string, 1)
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(namesrv),
		consumer.WithGroupName("hello-go-readers"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must(err)
	must(c.Subscribe("hello-go", consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				heard <- string(message.Body)
			}
			return consumer.ConsumeSuccess, nil
		}))
	must(c.Start())
	fmt.Println(<-heard)
	must(c.Shutdown())
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
