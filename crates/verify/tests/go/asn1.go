// What Go's encoding/asn1 makes of a signature, as hyperledger/fabric-lib-go calls it (bccsp/utils/ecdsa.go,
// UnmarshalECDSASignature): the rest is not looked at. Fabric's checks of the signs come after this.
//
// Reads a signature in hex per line; writes "ok R S", both in hex, with a sign where negative, or "no".
package main

import (
	"bufio"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
)

type ecdsaSignature struct {
	R, S *big.Int
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		raw, err := hex.DecodeString(lines.Text())
		if err != nil {
			panic(err)
		}
		var signature ecdsaSignature
		if _, err := asn1.Unmarshal(raw, &signature); err != nil {
			fmt.Fprintln(out, "no")
		} else {
			fmt.Fprintf(out, "ok %x %x\n", signature.R, signature.S)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
	if err := out.Flush(); err != nil {
		panic(err)
	}
}
