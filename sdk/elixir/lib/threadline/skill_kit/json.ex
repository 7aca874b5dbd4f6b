defmodule Threadline.SkillKit.Json do
  @moduledoc false
  # JSON without a dependency: what is older than Elixir 1.18 and OTP 27 has none of its own. Integers of any size, and
  # elements as they stand in the text.

  @doc "A term as JSON text. `{:object, pairs}` keeps its order. Bytes that are no text become U+FFFD, other terms their `inspect`."
  def encode(term), do: term |> write() |> IO.iodata_to_binary()

  @doc "The text of a binary: U+FFFD for each byte that is none. Everything else stays."
  def text(binary) when is_binary(binary), do: if(String.valid?(binary), do: binary, else: repair(binary, []))
  def text(other), do: other

  defp repair(<<char::utf8, rest::binary>>, done), do: repair(rest, [done, <<char::utf8>>])
  defp repair(<<_, rest::binary>>, done), do: repair(rest, [done, "\uFFFD"])
  defp repair(<<>>, done), do: IO.iodata_to_binary(done)

  defp write(nil), do: "null"
  defp write(true), do: "true"
  defp write(false), do: "false"
  defp write(atom) when is_atom(atom), do: write(Atom.to_string(atom))
  defp write(integer) when is_integer(integer), do: Integer.to_string(integer)
  defp write(float) when is_float(float), do: Float.to_string(float)
  defp write(binary) when is_binary(binary), do: [?", escape(text(binary), []), ?"]
  defp write({:object, pairs}), do: object(pairs)

  defp write(list) when is_list(list) do
    if List.improper?(list),
      do: write(inspect(list)),
      else: [?[, list |> Enum.map(&write/1) |> Enum.intersperse(?,), ?]]
  end

  defp write(%{__struct__: _} = struct), do: struct |> Map.from_struct() |> write()
  defp write(%{} = map), do: map |> Enum.sort() |> object()
  defp write(other), do: write(inspect(other))

  defp object(pairs) do
    [
      ?{,
      pairs
      |> Enum.map(fn {name, value} -> [write(name(name)), ?:, write(value)] end)
      |> Enum.intersperse(?,),
      ?}
    ]
  end

  defp name(name) when is_binary(name), do: name
  defp name(name) when is_atom(name), do: Atom.to_string(name)
  defp name(name), do: inspect(name)

  defp escape(<<>>, done), do: done
  defp escape(<<?", rest::binary>>, done), do: escape(rest, [done, "\\\""])
  defp escape(<<?\\, rest::binary>>, done), do: escape(rest, [done, "\\\\"])

  defp escape(<<byte, rest::binary>>, done) when byte < 0x20 do
    escape(rest, [done, "\\u00", byte |> Integer.to_string(16) |> String.pad_leading(2, "0")])
  end

  defp escape(text, done) do
    size = plain(text, 0)
    <<part::binary-size(size), rest::binary>> = text
    escape(rest, [done, part])
  end

  defp plain(<<byte, rest::binary>>, size) when byte >= 0x20 and byte not in [?", ?\\],
    do: plain(rest, size + 1)

  defp plain(_, size), do: size

  @doc "The value that a text begins with, and what is behind it."
  def decode(text) do
    {value, rest} = text |> blank() |> value()
    {:ok, value, blank(rest)}
  catch
    :not_json -> {:error, :not_json}
  end

  @doc "A member of an object as it stands in the text."
  def member(text, wanted) do
    with <<?{, rest::binary>> <- blank(text), do: find(blank(rest), wanted), else: (_ -> {:error, :not_json})
  catch
    :not_json -> {:error, :not_json}
  end

  defp find(<<?", rest::binary>>, wanted) do
    {name, rest} = string(rest, [])
    <<?:, rest::binary>> = blank(rest)
    rest = blank(rest)
    {_, behind} = value(rest)

    if name == wanted do
      {:ok, {:raw, binary_part(rest, 0, byte_size(rest) - byte_size(behind))}, behind}
    else
      case blank(behind) do
        <<?,, rest::binary>> -> find(blank(rest), wanted)
        _ -> {:error, :not_json}
      end
    end
  end

  defp find(_, _), do: {:error, :not_json}

  @doc "The elements of an array: each as it stands in the text, and its value."
  def elements(text) do
    case blank(text) do
      <<?[, rest::binary>> -> {:ok, elements(blank(rest), [])}
      _ -> {:error, :not_json}
    end
  catch
    :not_json -> {:error, :not_json}
  end

  defp elements(<<?], _::binary>>, done), do: Enum.reverse(done)

  defp elements(text, done) do
    {value, rest} = value(text)
    done = [{binary_part(text, 0, byte_size(text) - byte_size(rest)), value} | done]

    case blank(rest) do
      <<?,, rest::binary>> -> elements(blank(rest), done)
      <<?], _::binary>> -> Enum.reverse(done)
      _ -> throw(:not_json)
    end
  end

  @doc "Numbers that are the same are one: `1.0` and `1`."
  def same_numbers(float) when is_float(float), do: if(trunc(float) == float, do: trunc(float), else: float)
  def same_numbers(list) when is_list(list), do: Enum.map(list, &same_numbers/1)
  def same_numbers(%{} = map), do: Map.new(map, fn {name, value} -> {name, same_numbers(value)} end)
  def same_numbers(other), do: other

  defp blank(<<byte, rest::binary>>) when byte in ' \t\r\n', do: blank(rest)
  defp blank(text), do: text

  defp value(<<?", rest::binary>>), do: string(rest, [])
  defp value(<<?{, rest::binary>>), do: object(blank(rest), %{})
  defp value(<<?[, rest::binary>>), do: array(blank(rest), [])
  defp value(<<"true", rest::binary>>), do: {true, rest}
  defp value(<<"false", rest::binary>>), do: {false, rest}
  defp value(<<"null", rest::binary>>), do: {nil, rest}
  defp value(<<byte, _::binary>> = text) when byte in ?0..?9 or byte == ?-, do: number(text)
  defp value(_), do: throw(:not_json)

  defp array(<<?], rest::binary>>, done), do: {Enum.reverse(done), rest}

  defp array(text, done) do
    {value, rest} = value(text)

    case blank(rest) do
      <<?,, rest::binary>> -> array(blank(rest), [value | done])
      <<?], rest::binary>> -> {Enum.reverse([value | done]), rest}
      _ -> throw(:not_json)
    end
  end

  defp object(<<?}, rest::binary>>, done), do: {done, rest}

  defp object(<<?", rest::binary>>, done) do
    {name, rest} = string(rest, [])

    with <<?:, rest::binary>> <- blank(rest),
         {value, rest} = rest |> blank() |> value(),
         done = Map.put(done, name, value) do
      case blank(rest) do
        <<?,, rest::binary>> -> object(blank(rest), done)
        <<?}, rest::binary>> -> {done, rest}
        _ -> throw(:not_json)
      end
    else
      _ -> throw(:not_json)
    end
  end

  defp object(_, _), do: throw(:not_json)

  defp number(text) do
    size = digits(text, 0)
    <<number::binary-size(size), rest::binary>> = text

    case Integer.parse(number) do
      {integer, ""} -> {integer, rest}
      _ -> {float(number), rest}
    end
  end

  defp digits(<<byte, rest::binary>>, size) when byte in ?0..?9 or byte in '+-.eE', do: digits(rest, size + 1)
  defp digits(_, size), do: size

  # Erlang wants a point in it, and has none that is larger than a float: such a one stays its text.
  defp float(number) do
    [mantissa | exponent] = number |> String.downcase() |> String.split("e")
    mantissa = if String.contains?(mantissa, "."), do: mantissa, else: mantissa <> ".0"
    String.to_float(Enum.join([mantissa | exponent], "e"))
  rescue
    ArgumentError -> number
  end

  defp string(text, done) do
    size = plain(text, 0)

    case text do
      <<part::binary-size(size), ?", rest::binary>> -> {IO.iodata_to_binary([done, part]), rest}
      <<part::binary-size(size), ?\\, ?u, rest::binary>> -> unicode(rest, [done, part])
      <<part::binary-size(size), ?\\, byte, rest::binary>> -> string(rest, [done, part, short(byte)])
      _ -> throw(:not_json)
    end
  end

  defp short(byte) when byte in '"\\/', do: byte
  defp short(?b), do: ?\b
  defp short(?f), do: ?\f
  defp short(?n), do: ?\n
  defp short(?r), do: ?\r
  defp short(?t), do: ?\t
  defp short(_), do: throw(:not_json)

  defp unicode(<<high::binary-size(4), "\\u", low::binary-size(4), rest::binary>> = text, done) do
    case {unit(high), unit(low)} do
      {high, low} when high in 0xD800..0xDBFF and low in 0xDC00..0xDFFF ->
        char = 0x10000 + Bitwise.bsl(high - 0xD800, 10) + low - 0xDC00
        string(rest, [done, <<char::utf8>>])

      _ ->
        single(text, done)
    end
  end

  defp unicode(text, done), do: single(text, done)

  defp single(<<digits::binary-size(4), rest::binary>>, done) do
    case unit(digits) do
      # Half a pair is no text.
      half when half in 0xD800..0xDFFF -> string(rest, [done, "\uFFFD"])
      char -> string(rest, [done, <<char::utf8>>])
    end
  end

  defp single(_, _), do: throw(:not_json)

  defp unit(digits) do
    case Integer.parse(digits, 16) do
      {unit, ""} -> unit
      _ -> throw(:not_json)
    end
  end
end
