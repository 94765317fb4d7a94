"""Domains, keys and signatures: who may say what, and how a receiver knows."""

from hopwire.security.domain_settings import domains_from_table
from hopwire.security.domains import ALWAYS, NEVER, OPEN, Domain, Domains, Key
from hopwire.security.host_proofs import Host, ProvedHosts, host_proof_of, prove_host
from hopwire.security.proofs import has_domain_of, proof_of, prove, voucher
from hopwire.security.replay import ReplayWindow, ReplayWindows
from hopwire.security.schemes import ANYONE, SCHEMES, Recipient, Stamp, mac, read_signature, signed_bytes
from hopwire.security.signing import Listener, Verdict, is_accepted, must_sign, sign, verify

__all__ = [
    "ALWAYS",
    "ANYONE",
    "NEVER",
    "OPEN",
    "SCHEMES",
    "Domain",
    "Domains",
    "Host",
    "Key",
    "Listener",
    "ProvedHosts",
    "Recipient",
    "ReplayWindow",
    "ReplayWindows",
    "Stamp",
    "Verdict",
    "domains_from_table",
    "has_domain_of",
    "host_proof_of",
    "is_accepted",
    "mac",
    "must_sign",
    "proof_of",
    "prove",
    "prove_host",
    "read_signature",
    "sign",
    "signed_bytes",
    "verify",
    "voucher",
]
