{ Heddle under a small program: strings and objects on two threads, then what the heap looks like. SPDX-License-Identifier: MIT }
program hello;

{$mode objfpc}{$H+}

uses
  heddlemm, { first }
  cthreads, SysUtils, Classes;

function CountWords(List: Pointer): PtrInt;
var
  I: Integer;
begin
  for I := 1 to 100000 do TStringList(List).Add('word ' + IntToStr(I));
  Result := 0;
end;

var
  Lists: array[0..1] of TStringList;
  Threads: array[0..1] of TThreadID;
  I: Integer;
begin
  ReportMemoryLeaksOnShutdown := True;
  for I := 0 to 1 do begin
    Lists[I] := TStringList.Create;
    Threads[I] := BeginThread(@CountWords, Lists[I]);
  end;
  for I := 0 to 1 do WaitForThreadTerminate(Threads[I], 0);
  WriteLn(Lists[0].Count + Lists[1].Count, ' words in ', GetFPCHeapStatus.CurrHeapUsed div 1024, ' KiB, by Heddle ', HeddleVersion);
  Lists[0].Free; { and Lists[1] is left to the report }
end.
