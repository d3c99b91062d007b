// Program that calls a replica with the official client library, as an application would.
//
//	gateway FOLDER ADDRESS CHANNEL MSP blocks|filtered|events COUNT
//	gateway FOLDER ADDRESS CHANNEL MSP commit TRANSACTION
//	gateway FOLDER ADDRESS CHANNEL MSP evaluate|propose CHAINCODE FUNCTION ARGUMENT...
//
// FOLDER holds tls-ca.pem, tls.pem, tls.key, user.pem, user.key and the checkpoint. The program prints one line for
// each event, and "closed" if the server ended the stream before COUNT events. "evaluate" asks the gateway service,
// and "propose" the endorser service with a proposal without a channel, as the peer CLI does. Both print the length
// and SHA-256 of the result, and for GetChainInfo and GetChannels its content. An error is printed as a line that
// begins with "error:".
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
	"github.com/hyperledger/fabric-protos-go-apiv2/common"
	protos "github.com/hyperledger/fabric-protos-go-apiv2/gateway"
	"github.com/hyperledger/fabric-protos-go-apiv2/msp"
	"github.com/hyperledger/fabric-protos-go-apiv2/peer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
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
	folder, address, channel, mspID, what := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
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
	id, err := identity.NewX509Identity(mspID, certificate)
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	switch what {
	case "commit":
		commit(ctx, gateway, channel, os.Args[6])
	case "evaluate":
		contract := network.GetContract(os.Args[6])
		result, err := contract.EvaluateWithContext(ctx, os.Args[7], client.WithArguments(os.Args[8:]...))
		report(os.Args[7], result, err)
	case "propose":
		propose(ctx, gateway, connection, sign)
	default:
		listen(ctx, network, folder, what)
	}
}

// commit prints the code and the block of a transaction as soon as it is committed.
func commit(ctx context.Context, gateway *client.Gateway, channel string, transaction string) {
	creator, err := proto.Marshal(&msp.SerializedIdentity{
		Mspid:   gateway.Identity().MspID(),
		IdBytes: gateway.Identity().Credentials(),
	})
	check(err)
	request, err := proto.Marshal(&protos.CommitStatusRequest{
		TransactionId: transaction,
		ChannelId:     channel,
		Identity:      creator,
	})
	check(err)
	bytes, err := proto.Marshal(&protos.SignedCommitStatusRequest{Request: request})
	check(err)
	pending, err := gateway.NewCommit(bytes)
	check(err)
	status, err := pending.StatusWithContext(ctx)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(status.TransactionID, status.Code, status.BlockNumber, status.Successful)
}

// propose sends a signed proposal without a channel to the endorser service, and prints the answer.
func propose(ctx context.Context, gateway *client.Gateway, connection *grpc.ClientConn, sign identity.Sign) {
	contract := gateway.GetNetwork("").GetContract(os.Args[6])
	made, err := contract.NewProposal(os.Args[7], client.WithArguments(os.Args[8:]...))
	check(err)
	bytes, err := made.Bytes()
	check(err)
	signature, err := sign(made.Digest())
	check(err)
	proposed := &protos.ProposedTransaction{}
	check(proto.Unmarshal(bytes, proposed))
	proposal := proposed.GetProposal()
	proposal.Signature = signature
	answer, err := peer.NewEndorserClient(connection).ProcessProposal(ctx, proposal)
	if err == nil && answer.GetResponse().GetStatus() != 200 {
		err = fmt.Errorf("status %d: %s", answer.GetResponse().GetStatus(), answer.GetResponse().GetMessage())
	}
	if answer.GetEndorsement() != nil {
		err = fmt.Errorf("a replica must not endorse")
	}
	report(os.Args[7], answer.GetResponse().GetPayload(), err)
}

// report prints the result of a query.
func report(function string, result []byte, err error) {
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	switch function {
	case "GetChainInfo":
		info := &common.BlockchainInfo{}
		check(proto.Unmarshal(result, info))
		fmt.Printf("%d %x %x\n", info.GetHeight(), info.GetCurrentBlockHash(), info.GetPreviousBlockHash())
	case "GetChannels":
		list := &peer.ChannelQueryResponse{}
		check(proto.Unmarshal(result, list))
		for _, channel := range list.GetChannels() {
			fmt.Println(channel.GetChannelId())
		}
	case "GetTransactionByID":
		processed := &peer.ProcessedTransaction{}
		check(proto.Unmarshal(result, processed))
		code := peer.TxValidationCode(processed.GetValidationCode())
		fmt.Println(code, len(processed.GetTransactionEnvelope().GetPayload()))
	default:
		fmt.Printf("%d %x\n", len(result), sha256.Sum256(result))
	}
}

// listen prints COUNT events.
func listen(ctx context.Context, network *client.Network, folder string, what string) {
	count, err := strconv.Atoi(os.Args[6])
	check(err)
	checkpointer, err := client.NewFileCheckpointer(filepath.Join(folder, what+".checkpoint"))
	check(err)
	defer checkpointer.Close()
	start := []client.BlockEventsOption{client.WithStartBlock(0), client.WithCheckpoint(checkpointer)}

	switch what {
	case "events":
		events, err := network.ChaincodeEvents(ctx, "cc", client.WithStartBlock(0), client.WithCheckpoint(checkpointer))
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		for range count {
			event, ok := <-events
			if !ok {
				fmt.Println("closed")
				return
			}
			fmt.Printf("%d %s %s %s %s\n", event.BlockNumber, event.TransactionID, event.ChaincodeName, event.EventName,
				event.Payload)
			check(checkpointer.CheckpointChaincodeEvent(event))
		}
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
