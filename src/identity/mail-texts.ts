import type { Mail } from "../kit/smtp/message.ts";

/** The mail that carries an invitation. */
export function invitationMail(to: string, { projectName, url }: { projectName: string; url: string }): Mail {
  return {
    to,
    subject: "An invitation to Millrace",
    text: lines(
      `You are invited to the project ${quoted(projectName)}. Open this link to join it:`,
      url,
      "The link works once, and for seven days. With it you join with the account you have, or make one.",
      "If you do not know what this is about, ignore this mail.",
    ),
  };
}

/** The mail that shows that an address is somebody's. */
export function proofMail(to: string, url: string): Mail {
  return {
    to,
    subject: "Your address on Millrace",
    text: lines(
      "Somebody who is signed in says that this address is theirs. If that is you, open this link where you are signed in:",
      url,
      "The link works for a day. If it is not you, ignore this mail: nothing happens without you.",
    ),
  };
}

/** The mail for somebody who forgot their password. */
export function passwordMail(to: string, url: string): Mail {
  return {
    to,
    subject: "A new password for Millrace",
    text: lines(
      "Somebody, perhaps you, asked to choose a new password for the account with this address. Open this link to do so:",
      url,
      "The link works once, and for an hour. Until then the old password stays. If it was not you, ignore this mail.",
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
