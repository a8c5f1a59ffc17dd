/** The text with another first character. Which one depends on it: a random text may begin with any already. */
export const altered = (text: string): string => `${text.startsWith("A") ? "B" : "A"}${text.slice(1)}`;
