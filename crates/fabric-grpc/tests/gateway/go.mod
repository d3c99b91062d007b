module lineside/gateway

go 1.22.0

require (
	github.com/hyperledger/fabric-gateway v1.7.0
	github.com/hyperledger/fabric-protos-go-apiv2 v0.3.4
	google.golang.org/grpc v1.67.1
	google.golang.org/protobuf v1.35.1
)

require (
	github.com/miekg/pkcs11 v1.1.1 // indirect
	golang.org/x/crypto v0.28.0 // indirect
	golang.org/x/net v0.28.0 // indirect
	golang.org/x/sys v0.26.0 // indirect
	golang.org/x/text v0.19.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240814211410-ddb44dafa142 // indirect
)
