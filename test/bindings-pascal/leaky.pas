{ Leaves a known set of blocks behind. leaky [none | expected | unregistered | now | many] SPDX-License-Identifier: MIT }
program leaky;

{$mode objfpc}{$H+}

uses
  heddlemm, cthreads, SysUtils, Classes;

type
  TLost = class
    Values: array[0..9] of Integer;
  end;

var
  P: array[0..2] of Pointer;

procedure Leave;
var
  I: Integer;
  Text: string;
  Wide: UnicodeString;
begin
  for I := 0 to 2 do TLost.Create;
  for I := 0 to 2 do P[I] := GetMem(5000);
  Text := IntToStr(ParamCount) + StringOfChar('s', 150);
  Pointer(Text) := nil;
  Wide := UnicodeString(StringOfChar('w', 400));
  Pointer(Wide) := nil;
  GetMem(300000);
end;

procedure Expect;
var
  I: Integer;
begin
  for I := 0 to 2 do if not RegisterExpectedMemoryLeak(P[I]) then Halt(3);
  if not RegisterExpectedMemoryLeak(TLost, 3) or not RegisterExpectedMemoryLeak(300000, 1) then Halt(3);
  if not RegisterExpectedMemoryLeak(176, 1) or not RegisterExpectedMemoryLeak(828, 1) then Halt(3);
end;

procedure Unexpect;
begin
  if not UnregisterExpectedMemoryLeak(P[1]) or UnregisterExpectedMemoryLeak(P[1]) then Halt(4);
  if not UnregisterExpectedMemoryLeak(TLost, 2) or UnregisterExpectedMemoryLeak(TLost, 2) then Halt(4);
  if UnregisterExpectedMemoryLeak(TObject) or UnregisterExpectedMemoryLeak(12345, 1) then Halt(4);
end;

{ Enough to make the tables grow, with each second one taken out again. }
procedure Many;
var
  Block: array of Pointer;
  I: Integer;
begin
  SetLength(Block, 20000);
  for I := 0 to High(Block) do Block[I] := GetMem(40);
  for I := 0 to High(Block) do RegisterExpectedMemoryLeak(Block[I]);
  for I := 0 to High(Block) do if Odd(I) and not UnregisterExpectedMemoryLeak(Block[I]) then Halt(5);
  for I := 0 to High(Block) do if UnregisterExpectedMemoryLeak(Block[I]) = Odd(I) then Halt(6);
  for I := 0 to High(Block) do if I mod 10 <> 0 then FreeMem(Block[I]) else if I mod 20 = 0 then RegisterExpectedMemoryLeak(Block[I]);
end;

begin
  ReportMemoryLeaksOnShutdown := True;
  if ParamStr(1) = 'none' then Exit;
  if ParamStr(1) = 'many' then begin
    Many;
    Exit;
  end;
  Leave;
  if ParamStr(1) = 'expected' then Expect;
  if ParamStr(1) = 'unregistered' then begin
    Expect;
    Unexpect;
  end;
  if (ParamStr(1) = 'now') and not ReportLeaks then Halt(5);
end.
