"""What runs real programs twice, without and with Heddle, and compares.

SPDX-License-Identifier: MIT
"""
