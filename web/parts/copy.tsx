import { useEffect, useState } from "react";
import { Button } from "./button.tsx";
import { copyText } from "./copy-text.ts";
import { tellError } from "./toasts.tsx";

/** Puts a text on the clipboard, and says so for a moment. */
export function Copy({
  text,
  label = "Copy",
  size = "small",
}: {
  readonly text: string;
  readonly label?: string;
  readonly size?: "normal" | "small";
}) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    copyText(text).then(() => setCopied(true), tellError);
  };
  return (
    <Button size={size} onClick={copy}>
      <span aria-live="polite">{isCopied ? "Copied" : label}</span>
    </Button>
  );
}

/** A text in fixed width, with a button that copies it. Whatever it holds is shown as text. */
export function CodeBlock({
  text,
  label,
  maxHeight,
}: {
  readonly text: string;
  readonly label: string;
  readonly maxHeight?: string;
}) {
  return (
    <div className="relative rounded-md border border-line bg-sunken">
      <div className="absolute top-1.5 right-1.5">
        <Copy text={text} />
      </div>
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className="overflow-auto p-3 pr-20 font-mono text-[0.88rem] whitespace-pre-wrap wrap-anywhere"
        style={{ maxHeight: maxHeight ?? "26rem" }}
      >
        {text}
      </pre>
    </div>
  );
}
