// Parses signatures with Go's encoding/asn1, as hyperledger/fabric-lib-go calls it (bccsp/utils/ecdsa.go,
// UnmarshalECDSASignature): the rest is ignored. Fabric's checks of the signs come later and are not included.
//
// Reads one signature in hex per line. Writes "ok R S", both in hex, with a sign if negative, or "no".
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
