import { useState } from "react";
import type { DragEvent, ReactNode } from "react";
import { classes } from "../../parts/classes.ts";
import { tell } from "../../parts/toasts.tsx";

/** Takes files that are dropped on it; the same can be done with a button. */
export function DropArea({
  isOpen,
  onFiles,
  children,
}: {
  readonly isOpen: boolean;
  readonly onFiles: (files: readonly File[]) => void;
  readonly children: ReactNode;
}) {
  const [isOver, setOver] = useState(false);
  const onDragOver = (event: DragEvent): void => {
    if (!isOpen || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  const onDragLeave = (event: DragEvent): void => {
    if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
  };
  const onDrop = (event: DragEvent): void => {
    setOver(false);
    if (!isOpen) return;
    event.preventDefault();
    const items = [...event.dataTransfer.items].filter(({ kind }) => kind === "file");
    const folders = items.filter((item) => item.webkitGetAsEntry()?.isDirectory);
    if (folders.length > 0)
      tell("Folders cannot be uploaded: open the folder here, and drop its files into it.");
    const files = items.filter((item) => !folders.includes(item)).map((item) => item.getAsFile());
    const given = files.filter((file) => file !== null);
    if (given.length > 0) onFiles(given);
  };
  return (
    <div
      onDragOver={onDragOver}
      onDragLeave={onDragLeave}
      onDrop={onDrop}
      className={classes("rounded-lg", isOver && "outline-2 outline-offset-2 outline-accent")}
    >
      {children}
    </div>
  );
}
