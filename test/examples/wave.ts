/** A tone of so many seconds as a WAV file: one channel, 16 bits, 44 bytes of header. */
export function wave(seconds: number, rate: number): Buffer {
  const samples = seconds * rate;
  const file = Buffer.alloc(44 + 2 * samples);
  file.write("RIFF", 0);
  file.writeUInt32LE(36 + 2 * samples, 4);
  file.write("WAVEfmt ", 8);
  for (const [place, number] of [16, 0x1_0001, rate, 2 * rate, 0x10_0002].entries()) {
    file.writeUInt32LE(number, 16 + 4 * place);
  }
  file.write("data", 36);
  file.writeUInt32LE(2 * samples, 40);
  for (let place = 0; place < samples; place += 1) {
    file.writeInt16LE(Math.round(8000 * Math.sin((2 * Math.PI * 220 * place) / rate)), 44 + 2 * place);
  }
  return file;
}
