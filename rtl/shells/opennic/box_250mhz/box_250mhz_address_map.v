// SPDX-License-Identifier: Apache-2.0
//
// The build of OpenNIC reads this file for the address map of a plug-in with several modules. Lineside has one module
// in the box, which takes the whole window.
