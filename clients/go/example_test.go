package lineside_test

import (
	"errors"
	"fmt"

	lineside "github.com/lineside/lineside/clients/go"
)

func ExampleNewSecp256k1Signer() {
	// The secret number 1 is for this example alone; `lineside transfer key new` and `hybrid key new` make keys.
	signer, err := lineside.NewSecp256k1Signer([32]byte{31: 1})
	if err != nil {
		panic(err)
	}
	key := signer.PublicKey()
	fmt.Println(key)
	fmt.Printf("%x\n", key.Fingerprint())

	digest := [32]byte{1, 2, 3}
	signature, err := signer.Sign(digest)
	if err != nil {
		panic(err)
	}
	fmt.Println(key.Verify(digest, signature), key.Verify([32]byte{}, signature))
	// Output:
	// secp256k1:0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798
	// cd3c3215e8e8a23b956177e916fa1455
	// true false
}

func ExampleOutcomeUnknownError() {
	// An error as a write returns it when no reply came before the deadline.
	var err error = &lineside.OutcomeUnknownError{Service: "transfer", ID: "3/17", Err: errors.New("no answer")}

	var unknown *lineside.OutcomeUnknownError
	if errors.As(err, &unknown) {
		fmt.Println("keep this id and ask for the outcome later:", unknown.ID)
	}
	// Output: keep this id and ask for the outcome later: 3/17
}
