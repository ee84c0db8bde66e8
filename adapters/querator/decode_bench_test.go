package querator

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
)

func BenchmarkDecodeProduce(b *testing.B) {
	for _, n := range []int{1, 100} {
		item := `{"utf8":"` + strings.Repeat("x", 100) + `"}`
		json := `{"queue_name":"q","request_timeout":"1m","items":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
		m := &leasepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m"}
		for range n {
			m.Items = append(m.Items, &leasepb.ProduceItem{Utf8: strings.Repeat("x", 100)})
		}
		pb, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		for name, body := range map[string][]byte{"json": []byte(json), "protobuf": pb} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, n), func(b *testing.B) {
				c := &call{server: &server{o: Options{}.withDefaults()}, dialect: dialectL2, body: body}
				if name == "protobuf" {
					c.in = encodeProtobuf
				}
				b.ReportAllocs()
				for range b.N {
					req, err := c.decodeProduce()
					if err != nil {
						b.Fatal(err)
					}
					if _, err := pushItems(req, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
