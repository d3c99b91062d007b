// SPDX-License-Identifier: Apache-2.0
//
// The 250 MHz box of OpenNIC includes this file for the division of its AXI4-Lite window. Lineside has one module in
// the box, which takes the whole window, so nothing is divided.
