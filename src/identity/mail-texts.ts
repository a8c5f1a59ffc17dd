import type { Mail } from "../kit/smtp.ts";

/** The mail that carries an invitation. */
export function invitationMail(to: string, { projectName, url }: { projectName: string; url: string }): Mail {
  return {
    to,
    subject: "An invitation to Millrace",
    text: lines(
      `You have been invited to the project ${quoted(projectName)}. Open this link to join:`,
      url,
      "The link works once and expires in seven days. You can join with an existing account or create one.",
      "If you were not expecting this, you can ignore it.",
    ),
  };
}

/** The mail that shows that an address is somebody's. */
export function proofMail(to: string, url: string): Mail {
  return {
    to,
    subject: "Verify your address for Millrace",
    text: lines(
      "An account on Millrace uses this e-mail address. If it is yours, open this link in the browser where you are signed in:",
      url,
      "The link expires in a day. If this was not you, you can ignore it; nothing will happen.",
    ),
  };
}

/** The mail for somebody who forgot their password. */
export function passwordMail(to: string, url: string): Mail {
  return {
    to,
    subject: "Reset your Millrace password",
    text: lines(
      "Somebody asked to reset the password of the account with this address. To choose a new one, open this link:",
      url,
      "The link works once and expires in an hour. If this was not you, you can ignore it; your password stays the same.",
    ),
  };
}

function lines(...paragraphs: readonly string[]): string {
  return `${paragraphs.join("\n\n")}\n`;
}

/** A project's name is whatever its owner wrote: cut short, and with nothing that a mail program makes a link of. */
function quoted(name: string): string {
  return `"${name
    .replaceAll(/[^\p{L}\p{N} _-]/gu, " ")
    .trim()
    .slice(0, 60)}"`;
}
