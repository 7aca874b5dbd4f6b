defmodule Threadline.SkillKit.Http do
  @moduledoc false
  # Requests over OTP's own client. Each may be sent again, so each is, until its deadline.

  @connect_timeout 5_000
  @tries 3
  @pause 200

  @doc "The status, headers by their names in lower case, and the body."
  def call(request, method, body \\ nil, headers \\ []) do
    with {:ok, _} <- Application.ensure_all_started(:inets),
         {:ok, _} <- Application.ensure_all_started(:ssl),
         {:ok, tls} <- tls(request) do
      attempt(request, method, body, headers, tls, @tries)
    end
  end

  defp attempt(request, method, body, headers, tls, tries) do
    left = request.deadline - System.monotonic_time(:millisecond)

    if left <= 0 do
      {:error, :timeout}
    else
      answer = once(request, method, body, headers, tls, left)
      again = request.deadline - System.monotonic_time(:millisecond) - pause(answer, tries)

      if tries > 1 and again > 0 and retryable?(answer) do
        Process.sleep(pause(answer, tries))
        attempt(request, method, body, headers, tls, tries - 1)
      else
        answer
      end
    end
  end

  defp once(request, method, body, headers, tls, left) do
    own =
      [{"accept", "application/json"}] ++
        for(
          {name, value} <- [
            {"authorization", bearer(request.config)},
            {"threadline-user", request.config[:user]}
          ],
          value != nil,
          do: {name, value}
        )

    headers = for {name, value} <- own ++ headers, do: {to_charlist(name), :binary.bin_to_list(value)}
    url = String.to_charlist(request.url)
    message = if body, do: {url, headers, 'application/json', body}, else: {url, headers}
    options = [timeout: left, connect_timeout: min(left, @connect_timeout), autoredirect: false] ++ tls

    case :httpc.request(method, message, options, body_format: :binary) do
      {:ok, {{_, status, _}, headers, body}} ->
        headers =
          Map.new(headers, fn {name, value} -> {String.downcase(to_string(name)), to_string(value)} end)

        {:ok, status, headers, body}

      {:error, reason} ->
        {:error, reason}
    end
  end

  defp bearer(config), do: if(config[:api_key], do: "Bearer #{config[:api_key]}")

  # OTP before 26 verifies nobody unless it is told to.
  defp tls(%{url: "https://" <> _, config: config}) do
    trusted =
      case config[:cacertfile] do
        nil -> {:cacerts, :public_key.cacerts_get()}
        file -> {:cacertfile, to_charlist(file)}
      end

    hostname = [match_fun: :public_key.pkix_verify_hostname_match_fun(:https)]
    {:ok, [ssl: [trusted, verify: :verify_peer, depth: 5, customize_hostname_check: hostname]]}
  end

  defp tls(%{url: "http://" <> _}), do: {:ok, []}
  defp tls(_), do: {:error, {:invalid_option, :url}}

  defp retryable?({:error, {:failed_connect, details}}), do: not (inspect(details) =~ "tls_alert")
  defp retryable?({:error, _}), do: true
  defp retryable?({:ok, status, _, _}) when status in [408, 429, 503], do: true
  # Another run holds the thread; every other 409 stays one.
  defp retryable?({:ok, 409, headers, _}), do: Map.has_key?(headers, "retry-after")
  defp retryable?({:ok, status, _, _}), do: status >= 500

  defp pause({:ok, _, %{"retry-after" => seconds}, _}, _tries) do
    case Integer.parse(seconds) do
      {seconds, _} -> seconds * 1_000
      :error -> @pause
    end
  end

  defp pause(_answer, tries), do: @pause * (@tries - tries + 1)
end
