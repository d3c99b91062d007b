# SPDX-License-Identifier: Apache-2.0
#
# The build of OpenNIC sources this file to create the crossbar of a plug-in with several modules. Lineside has one
# module in the box and needs none.
