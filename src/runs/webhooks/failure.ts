/** The address of a webhook, or one that its name stands for, is one that webhooks may not reach. */
export class AddressRefused extends Error {
  constructor() {
    super("webhooks may not reach this address");
    this.name = "AddressRefused";
  }
}

const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: "name_not_found",
  ENODATA: "name_not_found",
  ENONAME: "name_not_found",
  EBADNAME: "name_not_found",
  ETIMEOUT: "name_server_failed",
  ESERVFAIL: "name_server_failed",
  EREFUSED: "name_server_failed",
  ECONNREFUSED: "connection_refused",
  ECONNRESET: "connection_reset",
  EPIPE: "connection_reset",
  ETIMEDOUT: "unreachable",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
};

const TLS = /^(?:ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|EPROTO)/;

/** One word for why an attempt had no answer, with the code behind it where that tells more. */
export function errorWord(error: unknown): string {
  if (error instanceof AddressRefused) return "address_refused";
  const code = error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? "") : "";
  const word = Object.hasOwn(WORDS, code) ? WORDS[code] : undefined;
  if (word !== undefined) return word;
  if (TLS.test(code)) return `tls_failed: ${code}`;
  if (code.startsWith("HPE_")) return `bad_answer: ${code}`;
  return code === "" ? "connection_failed" : `connection_failed: ${code}`;
}
