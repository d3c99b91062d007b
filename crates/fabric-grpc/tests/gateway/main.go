// Listens for block events with the official client, as an application would.
//
//	gateway FOLDER ADDRESS CHANNEL MSP blocks|filtered COUNT
//
// FOLDER holds tls-ca.pem, tls.pem, tls.key, user.pem, user.key and the checkpoint. One line is printed for each
// event; "closed" where the server ended the stream before COUNT events.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hyperledger/fabric-gateway/pkg/client"
	"github.com/hyperledger/fabric-gateway/pkg/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(folder string, name string) []byte {
	content, err := os.ReadFile(filepath.Join(folder, name))
	check(err)
	return content
}

func main() {
	folder, address, channel, msp, what := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	count, err := strconv.Atoi(os.Args[6])
	check(err)

	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key"))
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(folder, "tls-ca.pem"))
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{pair}}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	check(err)
	defer connection.Close()

	certificate, err := identity.CertificateFromPEM(read(folder, "user.pem"))
	check(err)
	id, err := identity.NewX509Identity(msp, certificate)
	check(err)
	key, err := identity.PrivateKeyFromPEM(read(folder, "user.key"))
	check(err)
	sign, err := identity.NewPrivateKeySign(key)
	check(err)
	hash := sha256.Sum256(pair.Certificate[0])
	gateway, err := client.Connect(id, client.WithSign(sign), client.WithClientConnection(connection),
		client.WithTLSClientCertificateHash(hash[:]))
	check(err)
	defer gateway.Close()
	network := gateway.GetNetwork(channel)

	checkpointer, err := client.NewFileCheckpointer(filepath.Join(folder, what+".checkpoint"))
	check(err)
	defer checkpointer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := []client.BlockEventsOption{client.WithStartBlock(0), client.WithCheckpoint(checkpointer)}

	switch what {
	case "blocks":
		events, err := network.BlockEvents(ctx, start...)
		check(err)
		for range count {
			block, ok := <-events
			if !ok {
				fmt.Println("closed")
				return
			}
			header := block.GetHeader()
			fmt.Printf("%d %x %d\n", header.GetNumber(), header.GetDataHash(), len(block.GetData().GetData()))
			check(checkpointer.CheckpointBlock(header.GetNumber()))
		}
	case "filtered":
		events, err := network.FilteredBlockEvents(ctx, start...)
		check(err)
		for range count {
			block, ok := <-events
			if !ok {
				fmt.Println("closed")
				return
			}
			fmt.Print(block.GetNumber())
			for _, transaction := range block.GetFilteredTransactions() {
				fmt.Printf(" %s:%s", transaction.GetTxid(), transaction.GetTxValidationCode())
				for _, action := range transaction.GetTransactionActions().GetChaincodeActions() {
					event := action.GetChaincodeEvent()
					fmt.Printf(":%s:%s:%d", event.GetChaincodeId(), event.GetEventName(), len(event.GetPayload()))
				}
			}
			fmt.Println()
			check(checkpointer.CheckpointBlock(block.GetNumber()))
		}
	}
}
