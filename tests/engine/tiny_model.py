"""Write a model of one layer with random weights and another model's tokenizer: nonsense, but as fast as a window is long.

Run by the engine's own Python: `tiny_model.py FROM.gguf TO.gguf`. A client's own prompt of ten thousand tokens takes a real
model minutes on a shared core, and takes this one a second or two. Its answers end after some forty tokens, unless
`ignore_eos` is sent: every embedding has the same first number, and only the token that ends an answer looks at it.
"""

import sys

import gguf
import numpy

WIDTH, HEADS, FEED_FORWARD, WINDOW = 64, 2, 128, 131_072
END = 0.9
"""How likely the end is: about as likely as each of the forty most likely words."""
SIZES = {
    "embedding_length": WIDTH,
    "block_count": 1,
    "feed_forward_length": FEED_FORWARD,
    "attention.head_count": HEADS,
    "attention.head_count_kv": HEADS,
    "rope.dimension_count": WIDTH // HEADS,
    "context_length": WINDOW,
}


def write(source: str, destination: str) -> None:
    """Copy the metadata but for the sizes, and draw the weights."""
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(destination, "llama")
    sizes = {f"llama.{name}": value for name, value in SIZES.items()}
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, sizes.get(field.name, field.contents()), kind, inner)
    words = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight").shape[1]
    random = numpy.random.default_rng(1)

    def draw(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * 0.1).astype(numpy.float16))

    def ones(name: str) -> None:
        writer.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    embeddings = random.standard_normal((int(words), WIDTH)) * 0.1
    embeddings[:, 0] = 1
    readings = random.standard_normal((int(words), WIDTH)) * 0.1
    readings[:, 0] = 0
    readings[reader.fields["tokenizer.ggml.eos_token_id"].contents()] = [END, *[0] * (WIDTH - 1)]
    writer.add_tensor("token_embd.weight", embeddings.astype(numpy.float16))
    writer.add_tensor("output.weight", readings.astype(numpy.float16))
    ones("output_norm.weight")
    for name in ("attn_norm", "ffn_norm"):
        ones(f"blk.0.{name}.weight")
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        draw(f"blk.0.{name}.weight", WIDTH, WIDTH)
    for name in ("ffn_gate", "ffn_up"):
        draw(f"blk.0.{name}.weight", FEED_FORWARD, WIDTH)
    draw("blk.0.ffn_down.weight", WIDTH, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(*sys.argv[1:])
