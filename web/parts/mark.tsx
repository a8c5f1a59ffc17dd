/** The sign and the name. */
export function Mark() {
  return (
    <span className="flex items-center gap-2 font-semibold">
      <img src="/mark.svg" alt="" className="size-6" />
      Millrace
    </span>
  );
}
